"""Inside the training loop: metrics for PyTorch, JAX, TensorFlow and Keras, on one process or many."""
