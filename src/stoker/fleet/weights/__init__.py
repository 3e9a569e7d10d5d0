"""Files of model weights: which ones make up a model."""
