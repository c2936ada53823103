#!/usr/bin/env python3
"""Tests which comments and texts check_prose.py refuses, and which it accepts."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
import check_prose  # noqa: E402

REFUSED_OPENINGS = (
    "// Of the rows of this ps, as many as there are.",
    "int rows;  // What this ps owns of the rows.",
    "// rows: Whose number is not known to the caller.",
    "// By slice: the number of its rows here.",
    "// How long the caller waits for it.",
    "// For a store in this process.",
    "int rows;  // in the order of the slices",
    "int rows;  // Of this ps.",
    "int rows;  // After the greeting.",
    "// Writes the sums. Of equal elements the first one wins.",
    "// 0: off. Of the step's mean gradient.",
    "// Returns the rows; it is done. What a batch leaves out is zero.",
    "TEST(RunTest, WhatDoesNotFitIsNamed) {",
    "TEST_F(RunTest, OnlyWhatIsOutOfOrderNeedsCredit) {",
    "TEST(\n    RunTest, ThoseOfTheVariableOrOfTheMachine) {",
    "TEST_F(RunTest, AMissingFileIsNone) {",
    "TEST_F(RunTest, WithoutCgroupsItIsTheMachines) {",
    "TEST(RunTest, TheRunsDevicesStand) {",
    'LOG(INFO) << "How long the run waited.";',
    'LOG(INFO) << "what the model sums up waits";',
    'return absl::InternalError("ps/1 serves again; what it lacks is computed again");',
    'return Error(absl::StrCat(path, ": is gone; whoever removed it knows why"));',
    "  std::string\n      name;  // The name of the run in messages and on its pages.",
    "  bool is_new_ =\n      false;  // The device has no copy.",
    "  std::string reason_\n      ABSL_GUARDED_BY(mutex_);  // The reason why lines wait.",
    'constexpr char kHelp[] = "Prints the tasks.\\n"\n    "Of a run that has ended it prints how.";',
)
ACCEPTED_OPENINGS = (
    "// Returns the number of rows that this ps owns.",
    "int rows;  // By slice.",
    "int of_rows(int what_this_ps_owns);",
    "// In training, sets some elements to 0.",
    "// For clients: returns the status of a call.",
    "// After 20 s without an answer the task is killed.",
    "int rows;  // of a step",
    "int rows;  // Is it free?",
    "// Writes the sums. Without a GPU, the CPU computes them. How many?",
    "// Adds the rows. Which rows are stored depends on the updates.",
    "TEST(RunTest, WithoutAGpuTheCpuComputes) {",
    "TEST(RunTest, AFullDiskTakesWhatFits) {",
    'LOG(INFO) << "With --json the command prints one object.";',
    'LOG(INFO) << "Of it";',
    'LOG(INFO) << " what the model sums up";',
    'return Error(absl::StrCat(value, ": ", "which is not a whole number"));',
    'Add("activity: what the task does or waits for");',
    "  // The name of the run in messages and on its pages.\n  std::string name;",
    "  if (is_late)\n    return;  // The other task has the place.",
    "  Call(first,\n       second);  // The order counts.",
)
REFUSED_PHRASES = (
    "The run goes on from step 7.",
    "Training had gone on.",
    "The chief is told of the end.",
    "It was told to stop.",
    "A ps hears of the end.",
    "It has not heard of it.",
    "The batch in hand is skipped.",
    "This is no flag.",
    "These are no numbers.",
    "Whoever waits gets it.",
    "It is left out, which is said.",
    "So it ends, as things stand.",
)
ACCEPTED_PHRASES = (
    "There is no checkpoint.",
    "There are no rows.",
    "It is no longer valid.",
    "The run resumes from step 7.",
    "Numbers tell data sets apart.",
    "It goes onto the stack.",
)


def phrases_in(folder, name, content):
    path = folder / name
    path.write_text(content)
    return check_prose.bad_phrases(str(path))


def check_openings(folder):
    for lines, expected in ((REFUSED_OPENINGS, 1), (ACCEPTED_OPENINGS, 0)):
        for line in lines:
            path = folder / "opening.h"
            path.write_text(line + "\n")
            assert len(check_prose.bad_openings(str(path))[0]) == expected, line
    path = folder / "opening.py"
    path.write_text('"""Of the rows, as many as there are."""\n# Whose number is not known to anybody.\nrows = 1\n')
    assert len(check_prose.bad_openings(str(path))[0]) == 2


def check_scripts(folder):
    content = "#!/bin/bash\n# What the script leaves on the disk.\n# shellcheck disable=SC1\nrun x  # Of the tasks that are here.\n"
    for name in ("script.sh", "script", "BUILD", "a.yaml", "a.textproto"):
        path = folder / name
        path.write_text(content)
        assert len(check_prose.bad_openings(str(path))[0]) == 2, name
        path.write_text("#!/bin/bash\n# Prints what it finds here.\necho '#a'  # The colour of the background.\n")
        assert not check_prose.bad_openings(str(path))[0], name
        path.write_text("#!/bin/bash\n# The run goes on from here.\n")
        assert len(check_prose.bad_phrases(str(path))) == 1, name
    path = folder / "opening.py"
    path.write_text('raise ValueError(f"{name} is left out. What is missing is zero.")\n')
    assert len(check_prose.bad_openings(str(path))[0]) == 1
    path = folder / "script.py"
    path.write_text("# The run goes on from here.\n")
    assert len(check_prose.bad_phrases(str(path))) == 1


def check_phrases(folder):
    for lines, expected in ((REFUSED_PHRASES, 1), (ACCEPTED_PHRASES, 0)):
        for line in lines:
            for name in ("a.h", "a.cc", "a.proto"):
                assert len(phrases_in(folder, name, f"// {line}\n")) == expected, (name, line)
            assert len(phrases_in(folder, "a.cc", f'LOG(INFO) << "{line}";\n')) == expected, line
            assert len(phrases_in(folder, "a.md", f"# Title\n\n{line}\n")) == expected, line
    assert phrases_in(folder, "a.md", "So the run goes\non from step 7.\n")
    assert phrases_in(folder, "a.cc", 'LOG(INFO) << "the run goes "\n             "on from step 7";\n')
    assert not phrases_in(folder, "a.cc", "bool was_told = in_hand() && goes_on;\n")
    assert not phrases_in(folder, "a.cc", "#include \"what is told.h\"\n")
    assert phrases_in(folder, "a_test.cc", "TEST_F(RunTest, TheRunGoesOnFromStep7) {\n")
    assert phrases_in(folder, "a_test.cc", "TEST(\n    RunTest, AFlagIsToldItsRemedy) {\n")
    assert phrases_in(folder, "a_test.py", "def test_the_run_goes_on(tmp_path):\n    pass\n")
    assert not phrases_in(folder, "a_test.cc", "TEST(RunTest, TheRunResumesFromStep7) {\n")


def check_python_texts(folder):
    assert phrases_in(folder, "a.py", 'raise ValueError(f"{name} is no number of this run")\n')
    assert not phrases_in(folder, "a.py", 'raise ValueError(f"{name} is not a number of this run")\n')


def check_pages(folder):
    path = folder / "page.md"
    for text in ("What it lacks is computed again.\n", "* Of the events the newest are kept.\n", "It ends.\nWhatever still runs is killed.\n",
                 "| call | until |\n|---|---|\n| load | What the chief waits for is logged. |\n", "Which values fit\neach other, the tasks judge.\n"):
        path.write_text("# What a run shows\n\n" + text)
        assert len(check_prose.bad_page_openings(str(path))) == 1, text
    for text in ("## What it costs to run this\n", "The run ends. Why did it end? What is left of it?\n", "    What a program prints here\n",
                 "```\nWhat a program prints here\n```\n", "How k is chosen is described above.\n"):
        path.write_text(text)
        assert not check_prose.bad_page_openings(str(path)), text
    path.write_text("# Title\n\nFirst line.\n\n* One item.\n* What is left\n  of it stays.\n")
    assert check_prose.bad_page_openings(str(path)) == [(str(path), 6, "What is left of it stays.")]


def check_exit_codes(folder):
    """Named files may have neither a phrase nor a bad opening."""
    for content, code in (("// Returns the number of rows here.\n", 0), ("// Of the rows of this ps, all.\n", 1),
                          ("// Returns what the chief is told of it.\n", 1)):
        path = folder / "exit.h"
        path.write_text(content)
        done = subprocess.run([sys.executable, check_prose.__file__, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == code, (content, done.stdout, done.stderr)
        assert (str(path) in done.stdout) == (code == 1), done.stdout


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_openings(folder)
        check_scripts(folder)
        check_phrases(folder)
        check_python_texts(folder)
        check_pages(folder)
        check_exit_codes(folder)


if __name__ == "__main__":
    main()
