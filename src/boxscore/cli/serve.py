"""`boxscore serve RUNS`: a live page of the results in a folder."""

import argparse
import os
import sys
from typing import Any

from boxscore._support.exceptions import InputError
from boxscore.cli import arguments
from boxscore.cli.parsing import HelpFormatter
from boxscore.cli.terminal import Outcome, Stopped, say, show, styled

_EXAMPLES = """\
examples:
  boxscore serve runs/ --open
  boxscore serve runs/ --port 9000
  boxscore serve runs/ --host 0.0.0.0   # for everyone who can reach this machine

A run is a folder of results, one file per epoch:
  metric.compute().save(f"runs/a/epoch_{epoch:03}.boxscore", step=epoch)     # with reports and comparisons
  boxscore eval truths.json detections.json --save runs/b/epoch_3.boxscore   # the same
  boxscore eval truths.json detections.json --json runs/c/epoch_3.json       # numbers and classes only"""

_MISSING = "`boxscore serve` needs starlette and uvicorn: pip install 'boxscore[serve]'"


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "serve",
        usage="%(prog)s RUNS [options]",
        help="show the results in a folder on a live page: mAP over epochs, reports, comparisons",
        description="Show the results in a folder on a live page: mAP over epochs, a report of each result, and"
        " comparisons of any two. The page follows the folder while a model is trained.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("runs", metavar="RUNS", help="a folder of runs, or of the results of one run")
    group = parser.add_argument_group("server")
    group.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="HOST",
        help="address to listen on (default: 127.0.0.1, for this machine only); there is no password",
    )
    group.add_argument(
        "--port", type=port, default=8400, metavar="PORT", help="port to listen on; 0: any free one (default: 8400)"
    )
    group.add_argument("--open", action="store_true", help="open the page in a browser")
    group.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="also answer under this host name, as behind a proxy; may be repeated (default: IP addresses, localhost"
        " and HOST)",
    )
    group = parser.add_argument_group("confidence intervals")
    group.add_argument(
        "--bootstrap",
        type=arguments.num_resamples,
        metavar="N",
        help="bootstrap resamples of the confidence intervals in reports and comparisons; 0: none (default: 1,000, or"
        " none where those would take minutes)",
    )
    parser.set_defaults(run=run)


def port(text: str) -> int:
    """A port number."""
    if (number := arguments.non_negative(text)) > 65535:
        raise argparse.ArgumentTypeError(f"must be at most 65535; got {text!r}")
    return number


def run(options: argparse.Namespace) -> Outcome:
    """Serve until Ctrl-C."""
    import threading
    from importlib.util import find_spec
    from pathlib import Path

    from boxscore.report.charts import chart_script, check_vl_convert

    folder = Path(options.runs)
    if not folder.is_dir():
        raise InputError(f"{folder}: {'must be a folder; got a file' if folder.exists() else 'no such folder'}")
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise InputError(_MISSING)
    check_vl_convert()
    from boxscore.report.serving import web
    from boxscore.report.serving.pages import Pages
    from boxscore.report.serving.runs import RunFolder

    listener = web.listen(options.host, options.port)
    host = f"[{options.host}]" if ":" in options.host else options.host
    is_everywhere = options.host in ("0.0.0.0", "::", "")
    address = f"http://{'127.0.0.1' if is_everywhere else host}:{listener.getsockname()[1]}/"
    if not web.is_local(listener):
        warning = (
            f"--host {options.host}: everyone who can reach this machine can read these results, without a password"
        )
        say(f"{styled('boxscore: warning:', 'yellow', sys.stderr)} {warning}", sys.stderr)
    show(f"serving {folder} at {address} (Ctrl-C stops it)", sys.stdout)
    threading.Thread(target=chart_script, daemon=True).start()  # so that the first report doesn't wait for it
    if options.open:
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    pages = Pages(RunFolder(folder), options.bootstrap)
    outcome = Outcome("stopped")
    try:
        web.run_server(web.make_app(pages, names=(options.host, *options.allow_host)), listener)
    except KeyboardInterrupt:
        pass
    except Stopped as stop:
        outcome = Outcome(str(stop), stop.code)
    if pages.is_busy:  # otherwise Python waits for the thread that makes a report
        show(outcome.text, sys.stdout)
        os._exit(outcome.code)
    return outcome
