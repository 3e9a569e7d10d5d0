"""What every conversation with a model server needs, whoever starts it: a lease, held and given back."""
