"""The story of shared cards for a machine with a real card: `make test-gpu WHEELS=folder`, or run.sh."""
