"""CUDA sources compiled by the system's nvcc: shoal_cuda_library."""

# PTX of the oldest generation the toolkit knows, machine code of the ones we measure on.
_ARCHITECTURES = [
    "-gencode=arch=compute_75,code=compute_75",
    "-gencode=arch=compute_90,code=sm_90",
]

_NVCC_FLAGS = [
    "-std=c++17",
    "-O3",
    "--fmad=false",
    "-Xcompiler=-fPIC,-Wall,-Wextra,-ffp-contract=off",
    "-I.",
]

def _cuda_objects_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    headers = depset(ctx.files.hdrs, transitive = [context.headers for context in contexts])
    objects = []
    for src in ctx.files.srcs:
        output = ctx.actions.declare_file(src.basename[:-len(".cu")] + ".cu.o")
        arguments = ctx.actions.args()
        arguments.add_all(_NVCC_FLAGS + _ARCHITECTURES + ctx.attr.copts)
        arguments.add("-I" + ctx.bin_dir.path)
        arguments.add_all(["-c", src, "-o", output])
        ctx.actions.run_shell(
            command = "nvcc \"$@\"",
            arguments = [arguments],
            inputs = depset([src], transitive = [headers]),
            outputs = [output],
            mnemonic = "NvccCompile",
            progress_message = "Compiling %s" % src.short_path,
            use_default_shell_env = True,
        )
        objects.append(output)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
    },
    fragments = ["cpp"],
)

def shoal_cuda_library(name, srcs, hdrs = [], deps = [], copts = [], **kwargs):
    """A C++ library of .cu files. Tagged manual: only a select() on //tools/bazel:cuda reaches it.

    Args:
      name: of the cc_library.
      srcs: .cu files.
      hdrs: headers that others include; must compile without nvcc.
      deps: C++ libraries.
      copts: further nvcc flags.
      **kwargs: for the cc_library.
    """
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        copts = copts,
        deps = deps,
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [":" + name + "_objects"],
        hdrs = hdrs,
        tags = ["manual"],
        deps = deps + ["//third_party/system:cuda"],
        **kwargs
    )
