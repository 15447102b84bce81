"""Tables and pictures of reproductions and validations."""
