"""AdamW: gradient descent whose step is scaled parameter by parameter."""

from collections.abc import Callable

import mlx.core as mx

Params = dict[str, mx.array]
State = dict[str, mx.array]


def is_vector(name: str, param: mx.array) -> bool:
    """Return whether a parameter has fewer than two axes, as the weights of norms and biases have."""
    return param.ndim < 2


class AdamW:
    """AdamW with bias correction and decoupled weight decay.

    The optimizer has settings and no state of its own: `update` takes the state and returns the next one.
    """

    def __init__(
        self,
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        no_decay: Callable[[str, mx.array], bool] = is_vector,
    ) -> None:
        """Store the settings.

        Args:
            learning_rate: of every step, unless `update` gets another one.
            betas: beta1 and beta2, how much of the running means m and v is kept at each step.
            eps: added to the root of v, so that nothing is divided by zero.
            weight_decay: lambda. At each step a parameter loses this share of itself, times the learning rate.
            no_decay: called with a parameter's name and value; True exempts it from weight decay.

        Raises:
            ValueError: a beta is not in [0, 1), eps is not positive, or learning_rate or weight_decay is negative. The
                message states the number.
        """
        for beta in betas:
            if not 0 <= beta < 1:
                raise ValueError(f"beta is {beta}, but a number from 0 to below 1 is needed")
        if not eps > 0:
            raise ValueError(f"eps is {eps}, but a positive number is needed")
        for name, number in [("learning_rate", learning_rate), ("weight_decay", weight_decay)]:
            if not number >= 0:
                raise ValueError(f"{name} is {number}, but it must not be negative")
        self.learning_rate, self.betas, self.eps = learning_rate, betas, eps
        self.weight_decay, self.no_decay = weight_decay, no_decay

    def init(self, params: Params) -> State:
        """Return the state before the first update.

        Args:
            params: the parameters by name, of any float dtypes.

        Returns:
            `step`, an int32 scalar, 0; and for each parameter NAME `m.NAME` and `v.NAME`, zeros of its shape in
            float32. The dictionary is flat, so that `mx.save_safetensors` stores it as it is.
        """
        state = {"step": mx.array(0, mx.int32)}
        for name, param in params.items():
            state[f"m.{name}"] = mx.zeros(param.shape, mx.float32)
            state[f"v.{name}"] = mx.zeros(param.shape, mx.float32)
        return state

    def update(
        self, params: Params, grads: Params, state: State, learning_rate: float | None = None
    ) -> tuple[Params, State]:
        """Take one step.

        For each parameter p with gradient g, at step t, counted from 1:
        m = beta1 * m + (1 - beta1) * g and v = beta2 * v + (1 - beta2) * g * g, then
        p = p - rate * (m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + eps) + lambda * p), where m and v start at zero
        and lambda is 0 for the parameters that `no_decay` exempts.

        Args:
            params: the parameters by name.
            grads: their gradients by the same names, in the same shapes, of any float dtypes.
            state: as returned by `init` or by the previous update; its `step` is t - 1.
            learning_rate: of this step; None means the optimizer's.

        Returns:
            The new parameters, computed in float32 and rounded once to their own dtypes, and the new state, with the
            same names, shapes and dtypes as the old. The arguments are not changed, nor are their arrays.

        Raises:
            ValueError: params and grads do not have the same names, or a gradient does not have its parameter's shape.
                The message names the parameter, and states the gradient's shape if that is wrong.

        Source: Loshchilov and Hutter 2019; `mlx.optimizers.AdamW` with `bias_correction=True`, `torch.optim.AdamW`.
        """
        for name in params.keys() ^ grads.keys():
            raise ValueError(f"{name} is a name in only one of params and grads")
        for name, grad in grads.items():
            if grad.shape != params[name].shape:
                raise ValueError(f"{name}'s gradient has shape {grad.shape}, but {params[name].shape} is needed")
        rate = self.learning_rate if learning_rate is None else learning_rate
        beta1, beta2 = self.betas
        step = state["step"] + 1
        new_params: Params = {}
        new_state: State = {"step": step}
        for name, param in params.items():
            p, g = param.astype(mx.float32), grads[name].astype(mx.float32)
            m = beta1 * state[f"m.{name}"] + (1 - beta1) * g
            v = beta2 * state[f"v.{name}"] + (1 - beta2) * mx.square(g)
            # m and v start at zero and are too small at first: after t steps by the factors 1 - beta ** t.
            direction = m / (1 - beta1**step) / (mx.sqrt(v / (1 - beta2**step)) + self.eps)
            decay = 0.0 if self.no_decay(name, param) else self.weight_decay
            new_params[name] = (p - rate * (direction + decay * p)).astype(param.dtype)
            new_state[f"m.{name}"], new_state[f"v.{name}"] = m, v
        return new_params, new_state
