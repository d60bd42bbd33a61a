"""The exercises of lesson 10, Profiling and throughput: one file an exercise."""
