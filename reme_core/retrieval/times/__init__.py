"""Times named in questions, and how well what is stored fits them."""
