"""Which family an operator belongs to: what the table of a run is grouped by."""

from __future__ import annotations

_FAMILIES = {
    "elementwise": """
        Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip
        Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less
        LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin
        Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu Where Xor""",
    "conversion": "BitCast Cast CastLike Constant ConstantOfShape EyeLike Identity OneHot Range Shape Size",
    "reduction": """
        ArgMax ArgMin CumProd CumSum Hardmax LogSoftmax ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
        ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Softmax""",
    "product": "Det Einsum Gemm MatMul",
    "movement": """
        CenterCropPad Concat DepthToSpace Expand Flatten Pad Reshape ReverseSequence Slice SpaceToDepth Split Squeeze Tile
        Transpose Trilu Unsqueeze""",
    "indexing": """
        Compress Gather GatherElements GatherND NonMaxSuppression NonZero Scatter ScatterElements ScatterND TensorScatter
        TopK Unique""",
    "convolution & pooling": """
        AveragePool CausalConvWithState Col2Im Conv ConvTranspose DeformConv GlobalAveragePool GlobalLpPool GlobalMaxPool
        LpPool MaxPool MaxRoiPool MaxUnpool RoiAlign""",
    "normalization": """
        BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
        MeanVarianceNormalization RMSNormalization""",
    "attention": "Attention LinearAttention RotaryEmbedding ai.onnx.preview.FlexAttention",
    "recurrent & control flow": "GRU If LSTM Loop RNN Scan",
    "quantization": """
        ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul QuantizeLinear""",
    "sequence & optional": """
        ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty
        SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence""",
    "string": "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "signal & image": """
        AffineGrid BlackmanWindow DFT GridSample HammingWindow HannWindow ImageDecoder MelWeightMatrix Resize STFT
        Upsample""",
    "random": """
        Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike""",
    "training": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "file models": "simple pytorch-converted pytorch-operator",
}
_DOMAINS = {"ai.onnx.ml": "machine learning", "ai.onnx.preview.training": "training"}
_OF = {name: family for family, names in _FAMILIES.items() for name in names.split()}

FAMILIES = (*_FAMILIES, "machine learning", "other")


def family(group: str) -> str:
    """The family of an operator with its domain, or of a kind of file cases."""
    return _OF.get(group) or _DOMAINS.get(group.rpartition(".")[0], "other")
