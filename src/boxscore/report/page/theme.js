// Light and dark colours: as the system says, or as the reader chooses; pages from one server share the choice.

const THEME_KEY = "boxscore theme";
const isServed = window.location.protocol.startsWith("http");

function storedTheme() {
  const stored = isServed ? window.localStorage.getItem(THEME_KEY) : null;
  return ["light", "dark"].includes(stored) ? stored : null;
}

function theme() {
  let chosen = storedTheme();
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  if (chosen) document.documentElement.dataset.theme = chosen;
  const isDark = () => (chosen ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
  };
  button.addEventListener("click", () => {
    chosen = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    if (isServed) window.localStorage.setItem(THEME_KEY, chosen);
    label();
  });
  system.addEventListener("change", label);
  button.hidden = false;
  label();
}
