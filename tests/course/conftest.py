"""The device of the harness's own tests: the one that every machine has."""

import mlx.core as mx

mx.set_default_device(mx.cpu)
