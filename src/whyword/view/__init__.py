"""View: the JSON document as terminal text, HTML, LaTeX, pictures and tables."""
