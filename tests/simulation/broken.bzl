"""Sources with promises that can be broken at run time."""

def broken_sources(name, srcs):
    """Makes a copy of each source as break.py changes it.

    Args:
      name: of the group of all copies.
      srcs: labels of sources, "//ps:snapshot.cc".
    """
    outs = []
    for src in srcs:
        out = "broken_" + src[2:].replace("/", "_").replace(":", "_")
        native.genrule(
            name = out + "_source",
            testonly = True,
            srcs = [src],
            outs = [out],
            cmd = "python3 $(location break.py) $(location %s) $@" % src,
            tools = ["break.py"],
        )
        outs.append(out)
    native.filegroup(name = name, testonly = True, srcs = outs)
