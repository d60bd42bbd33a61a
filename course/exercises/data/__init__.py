"""The exercises of lesson 04, Datasets, DataLoader and padding collate: one file an exercise."""
