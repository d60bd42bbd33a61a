"""Texts that this machine cannot produce: of GPUs, of other versions of torch and NumPy; and what they tell.

Each is as it is printed, with what makes it in a comment where it is not plain.
"""

# ruff: noqa: E501 - texts stand as they are printed

LITERAL = (
    # --- device-mismatch
    (
        "device-mismatch",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)",
    ),
    (
        "device-mismatch",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cpu and mps:0!",
    ),
    (
        "device-mismatch",
        "RuntimeError: Expected all tensors to be on the same device, but got mat1 is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_addmm)",
    ),
    (
        "device-mismatch",
        "RuntimeError: Expected all tensors to be on the same device, but got index is on cuda:0, different from other tensors on cpu (when checking argument in method wrapper_CUDA__index_select)",
    ),
    (
        "device-mismatch",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ),
    (
        "device-mismatch",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
    ),
    (
        "device-mismatch",
        "RuntimeError: Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same",
    ),
    (
        "device-mismatch",
        "RuntimeError: Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0",
    ),
    (
        "device-mismatch",
        "RuntimeError: Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu",
    ),
    ("device-mismatch", "RuntimeError: Placeholder storage has not been allocated on MPS device!"),
    (
        "device-mismatch",
        "RuntimeError: Tensor for argument #2 'mat1' is on CPU, but expected it to be on GPU (while checking arguments for addmm)",
    ),
    (
        "device-mismatch",
        "RuntimeError: Expected object of device type cuda but got device type cpu for argument #1 'self' in call to _th_addmm",
    ),
    (
        "device-mismatch",
        "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    ),
    (
        "device-mismatch",
        "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu",
    ),
    ("device-mismatch", "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'"),
    (
        "device-mismatch",
        "RuntimeError: torch.cat(): all input tensors must be on the same device. Received cuda:0 and cpu",
    ),
    ("device-mismatch", "ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"),
    (
        "device-mismatch",
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    ),
    # --- environment
    ("cpu-build-installed", "AssertionError: Torch not compiled with CUDA enabled"),
    (
        "cpu-build-installed",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
    ),
    (
        "cpu-build-installed",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by downloading and installing a new version",
    ),
    (
        "cpu-build-installed",
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 10010). (Triggered internally at ../c10/cuda/CUDAFunctions.cpp:108.)",
    ),
    ("cpu-build-installed", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("cpu-build-installed", "RuntimeError: PyTorch is not linked with support for cuda devices"),
    (
        "cpu-build-installed",
        "NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend. This could be because the operator doesn't exist for this backend",
    ),
    (
        "cpu-build-installed",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on non supported HW",
    ),
    (
        "cpu-build-installed",
        "RuntimeError: cuda runtime error (35) : CUDA driver version is insufficient for CUDA runtime version at /pytorch/aten/src/THC/THCGeneral.cpp:50",
    ),
    # --- float64-input
    ("float64-input", "RuntimeError: expected scalar type Double but found Float"),
    ("float64-input", "RuntimeError: expected scalar type Float but found Double"),
    (
        "float64-input",
        "RuntimeError: Input type (torch.cuda.DoubleTensor) and weight type (torch.cuda.FloatTensor) should be the same",
    ),
    (
        "float64-input",
        "RuntimeError: Expected object of scalar type Float but got scalar type Double for argument #2 'mat1' in call to _th_addmm",
    ),
    (
        "float64-input",
        "TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead.",
    ),
    (
        "float64-input",
        "RuntimeError: Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'weight'; but type torch.cuda.DoubleTensor does not equal torch.cuda.FloatTensor (while checking arguments for cudnn_convolution)",
    ),
    ("float64-input", "ValueError: RNN: input must have the type torch.float32, got type torch.float64"),
    (
        "float64-input",
        "RuntimeError: Index put requires the source and destination dtypes match, got Float for the destination and Double for the source.",
    ),
    (
        "float64-input",
        "RuntimeError: Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: double and value.dtype: double instead.",
    ),
    ("float64-input", "RuntimeError: mat1 and mat2 must have the same dtype"),
    ("float64-input", "RuntimeError: self and mat2 must have the same dtype, but got Double and Float"),
    # --- integer-tensor-arithmetic
    ("integer-tensor-arithmetic", "RuntimeError: Can only calculate the mean of floating types. Got Long instead."),
    ("integer-tensor-arithmetic", "RuntimeError: \"host_softmax\" not implemented for 'Long'"),
    ("integer-tensor-arithmetic", "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Long'"),
    ("integer-tensor-arithmetic", "RuntimeError: \"slow_conv2d_cpu\" not implemented for 'Byte'"),
    ("integer-tensor-arithmetic", "RuntimeError: \"log_softmax_lastdim_kernel_impl\" not implemented for 'Int'"),
    (
        "integer-tensor-arithmetic",
        "RuntimeError: Input type (torch.cuda.ByteTensor) and weight type (torch.cuda.FloatTensor) should be the same",
    ),
    (
        "integer-tensor-arithmetic",
        "RuntimeError: Input type (MPSByteType) and weight type (MPSFloatType) should be the same",
    ),
    (
        "integer-tensor-arithmetic",
        "RuntimeError: Only Tensors of floating point and complex dtype can require gradients",
    ),
    (
        "integer-tensor-arithmetic",
        "RuntimeError: expected m1 and m2 to have the same dtype, but got: long long != float",
    ),
    # --- views, squeeze, truth, shapes
    (
        "view-of-noncontiguous",
        "RuntimeError: invalid argument 2: view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Call .contiguous() before .view().",
    ),
    ("tensor-truth-value", "RuntimeError: bool value of Tensor with more than one value is ambiguous"),
    (
        "tensor-truth-value",
        "ValueError: The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()",
    ),
    (
        "legacy-tensor-constructor",
        "RuntimeError: legacy constructor expects device type: cpu but device type: cuda was passed",
    ),
    (
        "uint8-overflow",
        "DeprecationWarning: NumPy will stop allowing conversion of out-of-bound Python integers to integer arrays.  The conversion of 300 to uint8 will fail in the future.",
    ),
    ("uint8-overflow", "RuntimeWarning: overflow encountered in ubyte_scalars"),
    (
        "broadcast-outer-product",
        "UserWarning: Using a target size (torch.Size([32])) that is different to the input size (torch.Size([32, 1])). This will likely lead to incorrect results due to broadcasting.",
    ),
    (
        "squeeze-drops-batch",
        "ValueError: Target size (torch.Size([1])) must be the same as input size (torch.Size([]))",
    ),
    ("squeeze-drops-batch", "RuntimeError: size mismatch (got input: [3], target: [1])"),
    (
        "write-into-expanded",
        "UserWarning: Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also applies to advanced indexing e.g. tensor[indices] = tensor",
    ),
    # --- numpy
    (
        "numpy-negative-stride",
        "ValueError: some of the strides of a given numpy array are negative. This is currently not supported, but will be added in future releases.",
    ),
    (
        "numpy-of-grad-tensor",
        "RuntimeError: Can't call numpy() on Variable that requires grad. Use var.detach().numpy() instead.",
    ),
    (
        "numpy-readonly-alias",
        "UserWarning: The given NumPy array is not writeable, and PyTorch does not support non-writeable tensors.",
    ),
    (
        "numpy-object-array",
        "VisibleDeprecationWarning: Creating an ndarray from ragged nested sequences (which is a list-or-tuple of lists-or-tuples-or ndarrays with different lengths or shapes) is deprecated.",
    ),
    (
        "numpy-object-array",
        "TypeError: can't convert np.ndarray of type numpy.object_. The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint8, and bool.",
    ),
    # --- autograd
    (
        "backward-twice",
        "RuntimeError: Trying to backward through the graph a second time, but the buffers have already been freed. Specify retain_graph=True when calling backward the first time.",
    ),
    (
        "backward-twice",
        "RuntimeError: Trying to backward through the graph a second time, but the saved intermediate results have already been freed.",
    ),
    (
        "inplace-on-saved",
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [64, 256]], which is output 0 of ReluBackward0, is at version 1; expected version 0 instead.",
    ),
    (
        "inplace-on-saved",
        "RuntimeError: Output 0 of UnbindBackward0 is a view and is being modified inplace. This view is the output of a function that returns multiple views.",
    ),
    (
        "step-before-second-backward",
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [512, 1]], which is output 0 of AsStridedBackward0, is at version 2; expected version 1 instead.",
    ),
    (
        "step-before-second-backward",
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [64, 3, 4, 4]] is at version 3; expected version 2 instead. Hint: enable anomaly detection",
    ),
    (
        "step-before-second-backward",
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [128, 1]], which is output 0 of TBackward, is at version 2; expected version 1 instead.",
    ),
    ("inplace-on-leaf", "RuntimeError: a leaf Variable that requires grad has been used in an in-place operation."),
    ("inplace-on-leaf", "RuntimeError: leaf variable has been moved into the graph interior"),
    ("graph-cut", "RuntimeError: element 0 of variables does not require grad and does not have a grad_fn"),
    (
        "nonleaf-parameter",
        "UserWarning: The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during autograd.backward().",
    ),
    (
        "parameter-rebound",
        "TypeError: cannot assign 'torch.FloatTensor' object to parameter 'weight' (torch.nn.Parameter or None required)",
    ),
    (
        "parameter-rebound",
        "TypeError: cannot assign 'torch.cuda.FloatTensor' as parameter 'weight' (torch.nn.Parameter or None expected)",
    ),
    ("inference-tensor-in-autograd", "RuntimeError: Inference tensors do not track version counter."),
    ("sqrt-at-zero", "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output."),
    ("log-of-zero", "RuntimeError: Function 'LogBackward0' returned nan values in its 0th output."),
    ("division-by-zero", "RuntimeError: Function 'DivBackward0' returned nan values in its 1th output."),
    # --- modules
    (
        "module-used-as-function",
        "torch.nn.modules.module.ModuleAttributeError: 'Softmax' object has no attribute 'argmax'",
    ),
    (
        "module-used-as-function",
        "TypeError: conv2d() received an invalid combination of arguments - got (ReLU, Parameter, Parameter, tuple, tuple, tuple, int), but expected one of:\n * (Tensor input, Tensor weight)",
    ),
    ("module-used-as-function", "TypeError: max_pool2d(): argument 'input' (position 1) must be Tensor, not ReLU"),
    ("missing-super-init", "torch.nn.modules.module.ModuleAttributeError: 'Net' object has no attribute '_modules'"),
    (
        "flatten-size-mismatch",
        "RuntimeError: size mismatch, m1: [64 x 2704], m2: [3136 x 10] at /pytorch/aten/src/TH/generic/THTensorMath.cpp:197",
    ),
    ("flatten-size-mismatch", "RuntimeError: shape '[-1, 784]' is invalid for input of size 150500"),
    (
        "batch-first-mismatch",
        "RuntimeError: Expected `len(lengths)` to be equal to batch_size, but got 32 (batch_size=50)",
    ),
    # --- data
    ("ragged-batch", "RuntimeError: Trying to resize storage that is not resizable"),
    (
        "ragged-batch",
        "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' 'truncation=True' to have batched tensors with the same length.",
    ),
    (
        "none-sample",
        "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'NoneType'>",
    ),
    ("unpicklable-worker-object", "AttributeError: Can't get local object 'Net.__init__.<locals>.<lambda>'"),
    ("unpicklable-worker-object", "TypeError: h5py objects cannot be pickled"),
    ("unpicklable-worker-object", "TypeError: can't pickle _thread.lock objects"),
    ("unpicklable-worker-object", "AttributeError: Can't get attribute 'MyDataset' on <module '__main__' (built-in)>"),
    ("unpicklable-worker-object", "TypeError: cannot pickle 'Environment' object"),
    (
        "missing-main-guard",
        "RuntimeError: \n        An attempt has been made to start a new process before the\n        current process has finished its bootstrapping phase.\n\n        This probably means that you are not using fork to start your\n        child processes",
    ),
    (
        "iterable-not-sharded",
        "UserWarning: Length of IterableDataset <__main__.D object at 0x7f> was reported to be 10 (when accessing len(dataloader)), but 11 samples have been fetched. For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset replica at each worker.",
    ),
    (
        "batchnorm-single-sample",
        "ValueError: Expected more than 1 value per channel when training, got input size [1, 512]",
    ),
    ("shared-file-handle", "lmdb.BadRslotError: mdb_txn_begin: MDB_BAD_RSLOT: Invalid reuse of reader locktable slot"),
    # --- losses
    ("class-target-dtype", "RuntimeError: expected scalar type Long but found Float"),
    ("class-target-dtype", "RuntimeError: expected scalar type Long but found Int"),
    (
        "class-target-dtype",
        "RuntimeError: \"nll_loss_forward_reduce_cuda_kernel_2d_index\" not implemented for 'Float'",
    ),
    ("class-target-dtype", "RuntimeError: \"nll_loss_forward_reduce_cuda_kernel_2d_index\" not implemented for 'Int'"),
    (
        "class-target-dtype",
        "RuntimeError: Expected object of scalar type Long but got scalar type Float for argument #2 'target' in call to _thnn_nll_loss_forward",
    ),
    (
        "class-target-shape",
        "RuntimeError: multi-target not supported at /pytorch/aten/src/THCUNN/generic/ClassNLLCriterion.cu:15",
    ),
    (
        "class-target-shape",
        "RuntimeError: only batches of spatial targets supported (non-empty 3D tensors) but got targets of size: : [8, 1, 64, 64]",
    ),
    ("class-target-shape", "RuntimeError: 1D target tensor expected, multi-target not supported"),
    ("class-axis-misplaced", "ValueError: Expected target size (32, 1000), got torch.Size([32, 20])"),
    (
        "class-axis-misplaced",
        "RuntimeError: input and target batch or spatial sizes don't match: target [2, 64, 48], input [2, 64, 48, 21]",
    ),
    (
        "class-index-out-of-range",
        "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
    ),
    (
        "class-index-out-of-range",
        "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.",
    ),
    ("class-index-out-of-range", "torch.AcceleratorError: CUDA error: device-side assert triggered"),
    (
        "class-index-out-of-range",
        "/pytorch/aten/src/THCUNN/ClassNLLCriterion.cu:108: cunn_ClassNLLCriterion_updateOutput_kernel: block: [0,0,0], thread: [2,0,0] Assertion `t >= 0 && t < n_classes` failed.",
    ),
    (
        "class-index-out-of-range",
        "RuntimeError: Assertion `cur_target >= 0 && cur_target < n_classes' failed.  at /pytorch/aten/src/THNN/generic/ClassNLLCriterion.c:97",
    ),
    (
        "bce-fed-logits",
        '../aten/src/ATen/native/cuda/Loss.cu:94: operator(): block: [0,0,0], thread: [0,0,0] Assertion `input_val >= zero && input_val <= one` failed.\nTraceback (most recent call last):\n  File "train.py", line 31, in <module>\n    loss = criterion(out, y)\nRuntimeError: CUDA error: device-side assert triggered',
    ),
    (
        "bce-fed-logits",
        "RuntimeError: Assertion `x >= 0. && x <= 1.' failed. input value should be between 0~1, but got -2.117533 at /pytorch/aten/src/THNN/generic/BCECriterion.c:62",
    ),
    # --- training
    (
        "out-of-memory",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 7.79 GiB total capacity; 5.01 GiB already allocated; 512.00 MiB free; 6.00 GiB reserved in total by PyTorch)",
    ),
    (
        "out-of-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 98.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 61.00 MiB is free.",
    ),
    (
        "out-of-memory",
        "RuntimeError: MPS backend out of memory (MPS allocated: 17.93 GB, other allocations: 384.00 KB, max allowed: 18.13 GB). Tried to allocate 256 bytes on private pool.",
    ),
    (
        "out-of-memory",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000 bytes. Error code 12 (Cannot allocate memory)",
    ),
    (
        "out-of-memory",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape (100000, 100000) and data type float64",
    ),
    ("out-of-memory", "RuntimeError: DataLoader worker (pid 1234) is killed by signal: Killed."),
    ("out-of-memory", "RuntimeError: CUDA error: out of memory"),
    ("out-of-memory", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."),
    (
        "scheduler-before-optimizer",
        "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in the opposite order",
    ),
    ("scheduler-per-batch", "ValueError: Tried to step 1002 times. The specified number of total steps is 1000"),
    ("log-of-zero", "RuntimeWarning: divide by zero encountered in log"),
    ("division-by-zero", "RuntimeWarning: invalid value encountered in true_divide"),
    (
        "exploding-gradient",
        "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`",
    ),
    (
        "argmax-wrong-axis",
        "UserWarning: Implicit dimension choice for softmax has been deprecated. Change the call to include dim=X as an argument.",
    ),
)

# Errors that no fault of the catalogue explains: nothing may be said of them.
UNKNOWN = (
    "NameError: name 'foo' is not defined",
    "ModuleNotFoundError: No module named 'torch'",
    "KeyError: 'labels'",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",
    "IndexError: list index out of range",
    "IndexError: index 5 is out of bounds for dimension 0 with size 3",
    "TypeError: 'NoneType' object is not subscriptable",
    "TypeError: forward() missing 1 required positional argument: 'x'",
    "AttributeError: 'Net' object has no attribute 'fc3'",
    "AttributeError: 'list' object has no attribute 'to'",
    "AttributeError: 'NoneType' object has no attribute 'shape'",
    "ValueError: not enough values to unpack (expected 3, got 2)",
    "SyntaxError: invalid syntax",
    "RuntimeError: Given groups=1, weight of size [8, 3, 3, 3], expected input[2, 32, 32, 3] to have 3 channels, but got 32 channels instead",
    "RuntimeError: The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 1",
    "RuntimeError: mat1 and mat2 must be sparse",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "ConnectionError: HTTPSConnectionPool(host='download.pytorch.org', port=443): Max retries exceeded",
    "urllib.error.HTTPError: HTTP Error 403: Forbidden",
    "UserWarning: The verbose parameter is deprecated. Please use get_last_lr() to access the learning rate.",
    "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of worker in current system is 2",
    "KeyboardInterrupt",
    "Epoch 3/10: loss 0.5123, accuracy 0.81",
    "ImportError: cannot import name 'container_abcs' from 'torch._six'",
    "OSError: [Errno 28] No space left on device",
    "RecursionError: maximum recursion depth exceeded",
    "AssertionError",
    "assert loss < 1",
    "zsh: command not found: python",
    "ValueError: optimizer lr must be a number",
    "RuntimeError: stack expects a tensor",
    "pip's dependency resolver does not currently take into account all the packages that are installed.",
    "RuntimeError: self must be a matrix",
    "RuntimeError: Numpy is not available",
)
