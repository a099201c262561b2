"""Tool-Aligned Post-Training: demonstrations, labels, datasets, training and evaluation of learned tool families."""
