"""The benches: what Headrace costs, beside an anchor in the same run. Unpublished; run by `make bench`."""
