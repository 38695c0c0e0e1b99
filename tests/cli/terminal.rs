//! Job control: an interactive shell on a terminal, which runs the tool.
