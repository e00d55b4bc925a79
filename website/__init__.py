"""What builds the site, beside mkdocs.yml."""
