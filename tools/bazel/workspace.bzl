"""What the WORKSPACE of a program outside this repository loads: shoal_workspace."""

load(":local_cuda.bzl", "local_cuda_repository")

def _folder_of_shoal_impl(repository):
    folder = repository.path(repository.attr.build_file).dirname
    for entry in folder.readdir():
        repository.symlink(entry, entry.basename)

# A folder of Shoal as a repository of its own, wherever Shoal's repository lies.
_folder_of_shoal = repository_rule(
    implementation = _folder_of_shoal_impl,
    attrs = {"build_file": attr.label(mandatory = True, allow_single_file = True)},
    local = True,
)

def shoal_workspace():
    """Declares the repositories that Shoal's targets need; Bazel fetches nothing.

    Call it in a WORKSPACE that has declared Shoal itself:

        local_repository(name = "shoal", path = "/path/to/shoal")
        load("@shoal//tools/bazel:workspace.bzl", "shoal_workspace")
        shoal_workspace()
    """
    for name, folder in {
        "rules_cc": "rules_cc",
        "rules_java": "rules_java",
        "remote_coverage_tools": "coverage_tools",
    }.items():
        if not native.existing_rule(name):
            _folder_of_shoal(name = name, build_file = "@shoal//third_party/%s:BUILD" % folder)
    if not native.existing_rule("local_cuda"):
        local_cuda_repository(name = "local_cuda")
