"""The CUDA toolkit of this machine as a repository, empty where there is none."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# System headers, by a path below the workspace: the other targets are compiled by the same command
# with and without --config=cuda.
cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
    ]),
    includes = ["include"],
)
"""

def _local_cuda_repository_impl(repository):
    include = repository.path(repository.attr.toolkit + "/include")
    if include.exists:
        repository.symlink(include, "include")
    repository.file("BUILD", _BUILD)

local_cuda_repository = repository_rule(
    implementation = _local_cuda_repository_impl,
    attrs = {"toolkit": attr.string(default = "/usr/local/cuda")},
    local = True,
)
