"""Charts for papers, the HTML report, and exports."""
