"""cc_library, cc_binary and cc_test, whose sources start from precompiled headers.

GCC parses the headers of tools/precompiled once, and not once for each source. A source still includes all
that it uses: Clang's configs have no precompiled headers, and so notice what is missing.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_PRECOMPILED = "//tools/precompiled:"

# The toolchain gives each function a section, so that the linker can drop what a program does not use. In the source of
# a test they are thousands, and without them GCC takes a fifth less time. tools/precompiled/BUILD repeats these flags.
_ONE_SECTION = ["-fno-function-sections", "-fno-data-sections"]

# GCC reads NAME.h.gch in place of NAME.h if both are in a folder of the include path and the flags are the same.
def _precompiled_headers_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        # A header has no module of its own.
        unsupported_features = ctx.disabled_features + ["layering_check", "module_maps"],
    )
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(
        output = header,
        content = '#include "%s"\n' % ctx.files.headers[0].short_path,
    )
    precompiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")
    roots = [".", ctx.label.workspace_root or "."]
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        quote_include_directories = depset(roots),
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ) + ["-x", "c++-header", header.path, "-o", precompiled.path],
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset(ctx.files.headers + [header], transitive = [toolchain.all_files]),
        outputs = [precompiled],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % ctx.label,
    )
    headers = depset(ctx.files.headers + [header, precompiled])
    return [
        DefaultInfo(files = headers),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = headers)),
    ]

precompiled_headers = rule(
    implementation = _precompiled_headers_impl,
    attrs = {
        # The first is the one that is precompiled, the others are what it includes of this repository.
        "headers": attr.label_list(allow_files = [".inc"], mandatory = True),
        "copts": attr.string_list(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

# Returns the attributes of a target whose sources have the flags that the headers were precompiled with.
def _with_precompiled(name, attributes):
    attributes = dict(attributes)
    attributes["copts"] = attributes.get("copts", []) + _without_clang(["-include", "tools/precompiled/%s.h" % name])
    attributes["deps"] = attributes.get("deps", []) + _without_clang([_PRECOMPILED + name])
    return attributes

# Returns `values`, and nothing in the configs that compile with Clang.
def _without_clang(values):
    return select({
        "//tools/bazel:asan": [],
        "//tools/bazel:tsan": [],
        "//conditions:default": values,
    })

# True for a target with sources in C++ and without flags of its own, with which GCC could not use what it precompiled.
def _can_use(attributes):
    sources = attributes.get("srcs", [])
    if type(sources) != "list" or attributes.get("copts", []) not in [[], ["-w"]]:
        return False
    return any([source.endswith(".cc") for source in sources])

def cc_library(**attributes):
    """A library, as the native rule."""
    native.cc_library(**(_with_precompiled("library", attributes) if _can_use(attributes) else attributes))

def cc_binary(**attributes):
    """A program, as the native rule."""
    native.cc_binary(**(_with_precompiled("library", attributes) if _can_use(attributes) else attributes))

def cc_test(**attributes):
    """A test; its sources that are named *_test.cc are compiled without optimization (.bazelrc) and with one section."""
    if _can_use(attributes):
        sources = [source for source in attributes["srcs"] if source.endswith(".cc")]
        kinds = [source.endswith("_test.cc") for source in sources]
        if all(kinds):
            attributes = _with_precompiled("test", attributes)
            attributes["copts"] = attributes["copts"] + _without_clang(_ONE_SECTION)
        elif not any(kinds):
            attributes = _with_precompiled("library", attributes)
    native.cc_test(**attributes)
