"""What other libraries need to know; each module imports its own."""
