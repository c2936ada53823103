"""A libFuzzer target: NAME.cc has LLVMFuzzerTestOneInput, corpus/NAME its inputs."""

def shoal_fuzz_target(name, deps, tags = []):
    """In the config fuzz the program is a fuzzer; in all others a test that replays the corpus.

    Args:
      name: of the target, its source and its corpus.
      deps: of the source.
      tags: of the test.
    """
    corpus = native.glob(["corpus/%s/*" % name])
    native.cc_test(
        name = name,
        size = "medium",
        srcs = [name + ".cc"] + select({
            "//tools/bazel:fuzz": [],
            "//conditions:default": ["replay_main.cc"],
        }),
        args = ["$(location %s)" % file for file in corpus],
        data = corpus,
        linkopts = select({
            "//tools/bazel:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        tags = tags,
        deps = deps + [":fuzz_target"],
    )
