"""What the benches share: bars and their table, and the programs that are measured."""
