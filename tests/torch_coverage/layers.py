"""Norms, activations, attention, recurrent layers, linear layers, embeddings and losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .case import Table, bools, f32, i64

NORMS = Table("normalization", batches=True)
_layer = NORMS.layer
_layer("BatchNorm1d", lambda: nn.BatchNorm1d(6), f32(4, 6))
_layer("BatchNorm1d-sequence", lambda: nn.BatchNorm1d(6), f32(2, 6, 5))
_layer("BatchNorm2d", lambda: nn.BatchNorm2d(3), f32(2, 3, 7, 7))
_layer("BatchNorm2d-no-affine", lambda: nn.BatchNorm2d(3, affine=False), f32(2, 3, 7, 7))
_layer("BatchNorm2d-no-running-stats", lambda: nn.BatchNorm2d(3, track_running_stats=False), f32(2, 3, 7, 7))
_layer("BatchNorm3d", lambda: nn.BatchNorm3d(3), f32(2, 3, 4, 4, 4))
_layer("GroupNorm", lambda: nn.GroupNorm(2, 6), f32(2, 6, 5, 5))
_layer("GroupNorm-one", lambda: nn.GroupNorm(1, 6), f32(2, 6, 9))
_layer("InstanceNorm1d", lambda: nn.InstanceNorm1d(3), f32(2, 3, 9))
_layer("InstanceNorm2d", lambda: nn.InstanceNorm2d(3, affine=True), f32(2, 3, 7, 7))
_layer("InstanceNorm2d-running-stats", lambda: nn.InstanceNorm2d(3, track_running_stats=True), f32(2, 3, 7, 7))
_layer("InstanceNorm3d", lambda: nn.InstanceNorm3d(3), f32(2, 3, 4, 4, 4))
_layer("LayerNorm", lambda: nn.LayerNorm(16), f32(2, 5, 16))
_layer("LayerNorm-two-axes", lambda: nn.LayerNorm([5, 16]), f32(2, 5, 16))
_layer("LayerNorm-no-affine", lambda: nn.LayerNorm(16, elementwise_affine=False), f32(2, 5, 16))
_layer("LayerNorm-no-bias", lambda: nn.LayerNorm(16, bias=False), f32(2, 5, 16))
_layer("LocalResponseNorm", lambda: nn.LocalResponseNorm(3), f32(2, 6, 5, 5))
_layer("RMSNorm", lambda: nn.RMSNorm(16), f32(2, 5, 16))
_layer("RMSNorm-eps", lambda: nn.RMSNorm(16, eps=1e-3), f32(2, 5, 16))
NORMS.call("normalize", lambda x: F.normalize(x, dim=1), f32(2, 6, 5))
NORMS.call("normalize-1", lambda x: F.normalize(x, p=1.0, dim=-1), f32(2, 6, 5))
_layer("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), f32(2, 6))

ACTIVATIONS = Table("activation", batches=True)
_PLAIN = (nn.CELU, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU)
_PLAIN += (nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.RReLU, nn.SELU, nn.SiLU, nn.Sigmoid)
_PLAIN += (nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink, nn.Identity)
for _kind in _PLAIN:
    ACTIVATIONS.layer(_kind.__name__, _kind, f32(3, 33, low=-6, high=6))
_layer = ACTIVATIONS.layer
_layer("GELU-tanh", lambda: nn.GELU("tanh"), f32(3, 33, low=-6, high=6))
_layer("PReLU-channels", lambda: nn.PReLU(3), f32(2, 3, 7))
_layer("GLU", lambda: nn.GLU(), f32(3, 32))
_layer("Threshold", lambda: nn.Threshold(0.1, 20.0), f32(3, 33))
_layer("Softplus-beta", lambda: nn.Softplus(2.0, 3.0), f32(3, 33, low=-6, high=6))
_layer("Softmax", lambda: nn.Softmax(-1), f32(3, 33))
_layer("Softmax-dim-1", lambda: nn.Softmax(1), f32(2, 6, 5))
_layer("Softmax2d", nn.Softmax2d, f32(2, 3, 4, 5))
_layer("LogSoftmax", lambda: nn.LogSoftmax(-1), f32(3, 33))
_layer("Softmin", lambda: nn.Softmin(-1), f32(3, 33))
_layer("Dropout", nn.Dropout, f32(3, 33))
_layer("AlphaDropout", nn.AlphaDropout, f32(3, 33))

ATTENTION = Table("attention", batches=True)
_call, _layer = ATTENTION.call, ATTENTION.layer
_QKV = (f32(2, 3, 7, 16), f32(2, 3, 7, 16), f32(2, 3, 7, 16))
_call("sdpa", F.scaled_dot_product_attention, *_QKV)
_call("sdpa-causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *_QKV)
_call("sdpa-scale", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), *_QKV)
_call("sdpa-cross", F.scaled_dot_product_attention, f32(2, 3, 5, 16), f32(2, 3, 9, 16), f32(2, 3, 9, 8))
_call("sdpa-float-mask", F.scaled_dot_product_attention, *_QKV, f32(7, 7))
_call("sdpa-bool-mask", F.scaled_dot_product_attention, *_QKV, bools(2, 1, 7, 7))
_call(
    "sdpa-grouped",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    *(f32(2, 4, 7, 16), f32(2, 2, 7, 16), f32(2, 2, 7, 16)),
)
_call("sdpa-three-axes", F.scaled_dot_product_attention, f32(3, 7, 16), f32(3, 7, 16), f32(3, 7, 16))


class _Attending(nn.Module):
    """Self-attention by ``nn.MultiheadAttention``."""

    def __init__(self, weights: bool = False, batch_first: bool = True, masked: bool = False) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=batch_first)
        self.weights, self.masked = weights, masked

    def forward(self, x, mask=None):
        how = {"key_padding_mask": mask} if self.masked else {"attn_mask": mask}
        made, weights = self.attention(x, x, x, need_weights=self.weights, **how)
        return (made, weights) if self.weights else made


_layer("MultiheadAttention", _Attending, f32(2, 7, 16))
_layer("MultiheadAttention-weights", lambda: _Attending(weights=True), f32(2, 7, 16))
_layer("MultiheadAttention-sequence-first", lambda: _Attending(batch_first=False), f32(7, 2, 16))
_layer("MultiheadAttention-float-mask", _Attending, f32(2, 7, 16), f32(7, 7))
_layer("MultiheadAttention-key-padding", lambda: _Attending(masked=True), f32(2, 7, 16), f32(2, 7))
_layer("TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), f32(2, 7, 16))
_layer(
    "TransformerEncoderLayer-norm-first",
    lambda: nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True),
    f32(2, 7, 16),
)
_layer(
    "TransformerDecoderLayer",
    lambda: nn.TransformerDecoderLayer(16, 4, 32, batch_first=True),
    *(f32(2, 5, 16), f32(2, 7, 16)),
)
_layer(
    "TransformerEncoder",
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2),
    f32(2, 7, 16),
)
_layer("Transformer", lambda: nn.Transformer(16, 4, 1, 1, 32, batch_first=True), f32(2, 5, 16), f32(2, 7, 16))

RECURRENT = Table("recurrent")
_layer = RECURRENT.layer
_layer("RNN", lambda: nn.RNN(8, 12), f32(5, 2, 8))
_layer("RNN-relu", lambda: nn.RNN(8, 12, nonlinearity="relu", batch_first=True), f32(2, 5, 8))
_layer("LSTM", lambda: nn.LSTM(8, 12), f32(5, 2, 8))
_layer("LSTM-batch-first", lambda: nn.LSTM(8, 12, batch_first=True), f32(2, 5, 8))
_layer("LSTM-bidirectional", lambda: nn.LSTM(8, 12, bidirectional=True), f32(5, 2, 8))
_layer("LSTM-two-layers", lambda: nn.LSTM(8, 12, num_layers=2), f32(5, 2, 8))
_layer("LSTM-projection", lambda: nn.LSTM(8, 12, proj_size=5), f32(5, 2, 8))
_layer("LSTM-no-bias", lambda: nn.LSTM(8, 12, bias=False), f32(5, 2, 8))
_layer("GRU", lambda: nn.GRU(8, 12), f32(5, 2, 8))
_layer("GRU-bidirectional", lambda: nn.GRU(8, 12, bidirectional=True, batch_first=True), f32(2, 5, 8))
_layer("GRU-initial-state", lambda: nn.GRU(8, 12), f32(5, 2, 8), f32(1, 2, 12))
_layer("RNNCell", lambda: nn.RNNCell(8, 12), f32(2, 8), f32(2, 12))
_layer("LSTMCell", lambda: nn.LSTMCell(8, 12), f32(2, 8))
_layer("GRUCell", lambda: nn.GRUCell(8, 12), f32(2, 8), f32(2, 12))

LINEAR = Table("linear", batches=True)
_call, _layer = LINEAR.call, LINEAR.layer
_layer("Linear", lambda: nn.Linear(16, 5), f32(3, 16))
_layer("Linear-no-bias", lambda: nn.Linear(16, 5, bias=False), f32(2, 3, 16))
_layer("Linear-vector", lambda: nn.Linear(16, 5), f32(16))
_layer("Bilinear", lambda: nn.Bilinear(5, 6, 4), f32(3, 5), f32(3, 6))
_layer("Embedding", lambda: nn.Embedding(100, 16), i64(2, 5, low=0, high=100))
_layer("Embedding-padding", lambda: nn.Embedding(50, 8, padding_idx=0), i64(2, 5, low=0, high=50))
_layer("EmbeddingBag", lambda: nn.EmbeddingBag(50, 8, mode="mean"), i64(3, 5, low=0, high=50))
_layer("EmbeddingBag-sum", lambda: nn.EmbeddingBag(50, 8, mode="sum"), i64(3, 5, low=0, high=50))
_layer("Flatten", nn.Flatten, f32(2, 3, 4))
_layer("Unflatten", lambda: nn.Unflatten(1, (2, 3)), f32(2, 6, 4))
_layer("CosineSimilarity", nn.CosineSimilarity, f32(3, 7), f32(3, 7))
_layer("PairwiseDistance", nn.PairwiseDistance, f32(3, 7), f32(3, 7))
_call("matmul", torch.matmul, f32(4, 6), f32(6, 5))
_call("matmul-broadcast", torch.matmul, f32(3, 1, 4, 6), f32(2, 6, 5))
_call("matmul-vector", torch.matmul, f32(3, 4, 6), f32(6))
_call("bmm", torch.bmm, f32(3, 4, 6), f32(3, 6, 5))
_call("mv", torch.mv, f32(4, 6), f32(6))
_call("dot", torch.dot, f32(6), f32(6))
_call("outer", torch.outer, f32(6), f32(4))
_call("addmm", lambda a, x, y: torch.addmm(a, x, y, beta=0.5, alpha=2.0), f32(5), f32(4, 6), f32(6, 5))
_call("baddbmm", torch.baddbmm, f32(3, 4, 5), f32(3, 4, 6), f32(3, 6, 5))
_call("einsum-bilinear", lambda x, w, y: torch.einsum("bi,oij,bj->bo", x, w, y), f32(2, 3), f32(5, 3, 4), f32(2, 4))
_call("einsum-heads", lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k), f32(2, 5, 3, 4), f32(2, 6, 3, 4))
_call("einsum-trace", lambda x: torch.einsum("ii->", x), f32(5, 5))
_call("einsum-diagonal", lambda x: torch.einsum("bii->bi", x), f32(2, 5, 5))
_call("tensordot", lambda x, y: torch.tensordot(x, y, dims=2), f32(2, 3, 4), f32(3, 4, 5))
_call("kron", torch.kron, f32(2, 3), f32(3, 2))
_call("cross", lambda x, y: torch.linalg.cross(x, y), f32(4, 3), f32(4, 3))
_call("cdist", torch.cdist, f32(4, 3), f32(5, 3))

LOSSES = Table("loss")
_layer = LOSSES.layer
_layer("MSELoss", nn.MSELoss, f32(3, 5), f32(3, 5))
_layer("L1Loss", nn.L1Loss, f32(3, 5), f32(3, 5))
_layer("SmoothL1Loss", nn.SmoothL1Loss, f32(3, 5), f32(3, 5))
_layer("HuberLoss", nn.HuberLoss, f32(3, 5), f32(3, 5))
_layer("BCELoss", nn.BCELoss, f32(3, 5, low=0.1, high=0.9), f32(3, 5, low=0.0, high=1.0))
_layer("BCEWithLogitsLoss", nn.BCEWithLogitsLoss, f32(3, 5), f32(3, 5, low=0.0, high=1.0))
_layer("CrossEntropyLoss", nn.CrossEntropyLoss, f32(3, 5), i64(3, low=0, high=5))
_layer("CrossEntropyLoss-smoothing", lambda: nn.CrossEntropyLoss(label_smoothing=0.1), f32(3, 5), i64(3, low=0, high=5))
_layer("NLLLoss", nn.NLLLoss, f32(3, 5), i64(3, low=0, high=5))
_layer("KLDivLoss", lambda: nn.KLDivLoss(reduction="batchmean"), f32(3, 5), f32(3, 5, low=0.1, high=0.9))
_layer("SoftMarginLoss", nn.SoftMarginLoss, f32(3, 5), f32(3, 5))
_layer("HingeEmbeddingLoss", nn.HingeEmbeddingLoss, f32(3, 5), f32(3, 5))
_layer("TripletMarginLoss", nn.TripletMarginLoss, f32(3, 5), f32(3, 5), f32(3, 5))
_layer("GaussianNLLLoss", nn.GaussianNLLLoss, f32(3, 5), f32(3, 5), f32(3, 5, low=0.1, high=1.0))
_layer("PoissonNLLLoss", nn.PoissonNLLLoss, f32(3, 5), f32(3, 5, low=0.1, high=2.0))
