"""Protocol buffers by the system's protoc: shoal_proto_library."""

load("//tools/bazel:cc.bzl", "cc_library")

_SYSTEM = "//third_party/system:"

def _sources(label):
    """The filegroup with the .proto files that stand behind a shoal_proto_library."""
    return label + "_protos"

def shoal_proto_library(name, srcs, deps = [], grpc = False, **kwargs):
    """A C++ library of generated code.

    A .proto imports another by its path from the root ("proto/v1/x.proto"); C++ includes
    "proto/v1/x.pb.h" and, with grpc, "proto/v1/x.grpc.pb.h".

    Args:
      name: of the cc_library.
      srcs: .proto files of this folder.
      deps: other shoal_proto_libraries, as ":name" or "//folder:name".
      grpc: also generate the services.
      **kwargs: for the cc_library.
    """
    native.filegroup(
        name = _sources(name),
        srcs = srcs + [_sources(dep) for dep in deps],
        visibility = kwargs.get("visibility"),
    )
    stems = [src[:-len(".proto")] for src in srcs]
    headers = [stem + ".pb.h" for stem in stems]
    sources = [stem + ".pb.cc" for stem in stems]
    # Shoal's root, below the root of the build: "." here, "external/shoal" in a user's workspace.
    root = "." if native.repository_name() == "@" else "external/" + native.repository_name()[1:]
    output = "$(GENDIR)" if root == "." else "$(GENDIR)/" + root
    command = "protoc -I%s --cpp_out=%s" % (root, output)
    if grpc:
        headers += [stem + ".grpc.pb.h" for stem in stems]
        sources += [stem + ".grpc.pb.cc" for stem in stems]
        command += " --grpc_out=%s --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin)" % output
    for src in srcs:
        command += " $(location %s)" % src
    native.genrule(
        name = name + "_generate",
        srcs = srcs + [_sources(name)],
        outs = headers + sources,
        cmd = command,
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-w"],
        deps = deps + [_SYSTEM + ("grpc" if grpc else "protobuf")],
        **kwargs
    )
