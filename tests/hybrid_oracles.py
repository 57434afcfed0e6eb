"""Layers by their definitions: one token at a time, explicit matrices, no chunks, no caches; shares no product code."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def rms_norm(x: Array, weight: Array) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight


def delta_rule(state: Array, q: Array, k: Array, v: Array, log_decay: Array, beta: Array) -> tuple[Array, Array]:
    """One head, the transition as a matrix: S <- (I - beta k k^T) diag(alpha) S + beta k v^T, o = S^T q."""
    out = []
    for t in range(len(q)):
        transition = (np.eye(len(k[t])) - beta[t] * np.outer(k[t], k[t])) @ np.diag(np.exp(log_decay[t]))
        state = transition @ state + beta[t] * np.outer(k[t], v[t])
        out.append(state.T @ q[t])
    return np.array(out), state


def kda_layer(layer: Any, x: Array) -> Array:
    """A KDA layer over a whole sequence: the convolution as a sum over earlier inputs, heads one by one."""
    group, w = layer.group, layer.weights
    n_heads, dim = group.n_heads, group.head_dim
    inner, n = n_heads * dim, len(x)
    fused = x @ w.in_proj
    kernel = len(w.convolution)
    mixed = np.zeros((n, 3 * inner))
    for t in range(n):
        for j in range(kernel):
            if t - j >= 0:
                mixed[t] += fused[t - j, : 3 * inner] * w.convolution[kernel - 1 - j]
    mixed = silu(mixed)
    down, gate = fused[:, 3 * inner : 3 * inner + dim], fused[:, 3 * inner + dim : -n_heads]
    beta = sigmoid(fused[:, -n_heads:])
    gate = gate if w.gate_up is None else gate @ w.gate_up
    step = np.log1p(np.exp(down @ w.decay_up + w.decay_bias))
    heads = []
    for h in range(n_heads):
        own = slice(h * dim, (h + 1) * dim)
        q, k, v = (mixed[:, i * inner : (i + 1) * inner][:, own] for i in range(3))
        q, k = (a / np.sqrt(np.sum(a * a, axis=-1, keepdims=True) + 1e-6) for a in (q, k))
        decay = np.maximum(-w.decay_rate[h] * step[:, own], -5.0)
        out, _ = delta_rule(np.zeros((dim, dim)), q / np.sqrt(dim), k, v, decay, beta[:, h])
        heads.append(rms_norm(out, w.out_norm) * sigmoid(gate[:, own]))
    return np.concatenate(heads, axis=-1) @ w.o_proj


def turned(x: Array, position: int) -> Array:
    """Pairs (i, i + d/2) of one vector as complex numbers, turned."""
    half = len(x) // 2
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * position * 10000.0 ** (-np.arange(half) / half))
    return np.concatenate([z.real, z.imag])


def mla_layer(layer: Any, x: Array) -> Array:
    """Dense causal attention, head by head and query by query, from expanded keys and values."""
    group, w = layer.group, layer.weights
    n_heads, nope, rope, value = group.n_heads, group.qk_nope_head_dim, group.qk_rope_head_dim, group.v_head_dim
    rank, n = group.kv_lora_rank, len(x)
    queries = (x if w.q_a is None else rms_norm(x @ w.q_a, w.q_norm)) @ w.q_b
    fused = x @ w.kv_a
    heads = rms_norm(fused[:, :rank], w.kv_norm) @ w.kv_b
    out = np.zeros((n, n_heads * value))
    for h in range(n_heads):
        q = queries[:, h * (nope + rope) : (h + 1) * (nope + rope)]
        both = heads[:, h * (nope + value) : (h + 1) * (nope + value)]
        for t in range(n):
            scores = np.array(
                [
                    q[t, :nope] @ both[s, :nope] + turned(q[t, nope:], t) @ turned(fused[s, rank:], s)
                    for s in range(t + 1)
                ]
            ) / np.sqrt(nope + rope)
            weights = np.exp(scores - scores.max())
            out[t, h * value : (h + 1) * value] = weights / weights.sum() @ both[: t + 1, nope:]
    if w.gate is not None:
        out = out * sigmoid(x @ w.gate)
    return out @ w.o_proj


def gated_mlp(x: Array, gate_up: Array, down: Array) -> Array:
    width = gate_up.shape[-1] // 2
    return (silu(x @ gate_up[:, :width]) * (x @ gate_up[:, width:])) @ down


def sparse_mlp(mlp: Any, x: Array) -> Array:
    """Token by token, expert by expert."""
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        scores = sigmoid(row @ mlp.router)
        biased = scores if mlp.bias is None else scores + mlp.bias
        chosen = sorted(range(len(scores)), key=lambda e: (-biased[e], e))[: mlp.n_experts_per_token]
        total = sum(scores[e] for e in chosen)
        for e in chosen:
            out[t] += scores[e] / total * gated_mlp(row, mlp.gate_up[e], mlp.down[e])
        if mlp.shared is not None:
            out[t] += gated_mlp(row, mlp.shared.gate_up, mlp.shared.down)
    return out


def logits(model: Any, tokens: Any) -> Array:
    """Logits of the last token, everything recomputed from the first."""
    x = model.embedding[tokens]
    for layer in model.layers:
        mix = kda_layer if layer.mixer.group.kind == "kda" else mla_layer
        x = x + mix(layer.mixer, rms_norm(x, layer.mixer_norm))
        normed = rms_norm(x, layer.mlp_norm)
        sparse = hasattr(layer.mlp, "router")
        x = x + (sparse_mlp(layer.mlp, normed) if sparse else gated_mlp(normed, layer.mlp.gate_up, layer.mlp.down))
    return rms_norm(x[-1], model.final_norm) @ model.lm_head
