"""The paper's experiment, small: a CenterNet learns shapes, and mAP is measured after every epoch."""
