"""The papers of the book, one module or small package each; no paper imports another."""
