"""The methods of NeurIPS 2026 papers, one module a paper, over PyTorch."""

__version__ = "0.1.0"
