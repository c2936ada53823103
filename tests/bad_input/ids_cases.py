"""Columns of ids in tables, arrays and records that do not fit each other, the run file or the model."""
import struct
import subprocess

FLAGS, DATA_ERROR, CONFIG = 64, 65, 78

FEATURE = 'feature { column: "user" table: "t" }'
CSV = "user,seen,age,click\n" + "7,1:0.5|2:1,30,1\n,,40,0\n" * 8


def integers(values, npy, kind="<i8"):
    return npy(kind, f"({len(values)},)", struct.pack(f"<{len(values)}{'q' if kind == '<i8' else 'f'}", *values))


def arrays(npy, **other):
    """The arrays of 16 examples, but for what is given."""
    good = {"y": [1, 0] * 8, "user": range(16), "seen": range(20), "seen_offsets": [*range(0, 30, 2)][:10] + [20] * 7}
    files = {name: integers(list(values), npy) for name, values in good.items()}
    files["weight"] = integers([0.5] * 20, npy, "<f4")
    files.update(other)
    return {f"{name}_train.npy": content for name, content in files.items() if content is not None}


def ids_cases(scratch, shoal, npy):
    number = 0

    def place(files):
        """A new directory with these files."""
        nonlocal number
        number += 1
        directory = scratch / str(number)
        directory.mkdir(parents=True)
        for name, content in files.items():
            (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return directory

    def train(files, data, feature=FEATURE):
        """The command of a run on these files."""
        directory = place(files)
        file = directory / "run.textproto"
        file.write_text(f'''table {{ name: "t" dim: 4 }}
model {{ {feature} layer {{ input: "*" concat {{}} }} layer {{ dense {{ units: 1 }} }} loss: "sigmoid_cross_entropy" }}
data {{ directory: "{directory}" {data} }}
batch_size: 8
num_epochs: 1
deployment {{ num_ps_tasks: 0 num_replicas: 1 }}
''')
        return ["train", f"--run={file}", f"--out={directory / 'out'}"]

    def table(data, text=CSV, feature=FEATURE, name="train.csv"):
        return train({name: text}, 'csv { label: "click" } numbers: "age" ' + data, feature)

    def array(data, feature=FEATURE, **other):
        return train(arrays(npy, **other), "format: npy " + data, feature)

    user = 'ids { column: "user" } '
    seen = 'ids { column: "seen" separator: "|" weights: ":" } '
    both = FEATURE + ' feature { column: "seen" table: "t" }'
    weighted = 'ids { column: "seen" weights: "weight" } '
    lists = 'feature { column: "seen" table: "t" }'
    mean = 'feature { column: "seen" table: "t" pooling: mean }'
    for good in (table(user + seen, feature=both), array(user + weighted, feature=both)):
        done = subprocess.run([shoal, *good], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    trained = scratch / "1" / "out"

    def predict(text, name="new.csv"):
        return ["predict", f"--out={trained}", f"--input={place({name: text}) / name}"]

    return [
        # The run file.
        (table(user + 'ids { column: "seen" separator: "|" weights: ":" }'), FLAGS,
         'data.ids[1]: "seen" is named by no feature; drop it, or add model { feature { column: "seen" table: "TABLE" } }'),
        (table(user, feature=both), FLAGS, 'model.feature[1].column: "seen" is not a column of the data; those with ids are user'),
        (table(user, feature=FEATURE.replace("user", "age")), FLAGS, 'data.ids[0]: "user" is named by no feature'),
        (table('ids { column: "user" separator: "0" }'), FLAGS, 'data.ids[0].separator: "0" must be a text that no number'),
        (table('ids { column: "user" missing_words: "NULL" }'), FLAGS,
         "data.ids[0].missing_words: is for words, but ids are numbers; use missing, or set words: true"),
        (table("ids {}"), FLAGS, "data.ids[0].column: is empty; name a column of the data"),
        (array('ids { column: "user" words: true }'), FLAGS, "data.ids[0].words: is for csv and tfrecord"),
        (train({}, "format: clicks_synthetic " + user), FLAGS, "data.ids: is for the format csv and npy and tfrecord only"),
        # Tables.
        (table('ids { column: "usr" name: "user" }'), FLAGS,
         'train.csv: column of ids "usr" (data.ids[0]) is not there; the columns are user, seen, age, click'),
        (table(user, CSV.replace("age", "years")), FLAGS, 'train.csv: column of numbers "age" (data.numbers) is not there'),
        (table(user, CSV + "anna,,1,0\n"), DATA_ERROR, 'train.csv:18: column "user" is "anna", which is not a whole number of 64'),
        (table(user, CSV + "-1,,1,0\n"), DATA_ERROR, "(data.ids[0]: or set missing: -1 if it stands for none, or negative: true)"),
        (table(user, CSV + "1,,,0\n"), DATA_ERROR, 'train.csv:18: column "age" is empty (data.csv.empty_number gives'),
        ([*table(user), "--set=data.csv.empty_number=1e40"], FLAGS, "data.csv.empty_number: is 1e+40, which is not a finite number"),
        (table(user + seen, CSV + "1,3|4:1,1,0\n", both), DATA_ERROR,
         'train.csv:18: column "seen" is "3|4:1", where 3 has no weight; write 3:1 (data.ids[1]: weights)'),
        (table(user, CSV + "1,,1,3\n"), DATA_ERROR,
         'train.csv:18: label in column "click" is 3: it must be 0 or 1, because model.loss is sigmoid_cross_entropy'),
        (table(user, CSV.replace(",1\n", ",bought\n").replace(",0\n", ",seen\n") + "1,,1,clicked\n"), FLAGS,
         "model.loss: sigmoid_cross_entropy is for the labels 0 and 1, but "),
        (table(seen, CSV + "1,3:1|4:-0.999,1,0\n", mean), DATA_ERROR,
         'train.csv:18: column "seen" is "3:1|4:-0.999", whose weight -0.999 is negative, but the model takes the mean'),
        (table(user, ""), DATA_ERROR, "train.csv: holds no examples; add some"),
        (table(user, b"\x28\xb5\x2f\xfd\x00", name="train.csv.zst"), DATA_ERROR, "train.csv.zst: is damaged ("),
        (predict("user,seen,age\nanna,,3\n"), DATA_ERROR, 'new.csv:2: column "user" is "anna"'),
        (predict("seen,age\n,3\n"), DATA_ERROR, 'new.csv: column of ids "user" (data.ids[0]) is not there'),
        # Arrays.
        (array('ids { column: "usr" name: "user" }'), CONFIG, "usr_train.npy: No such file or directory; check data.directory or data.ids[0].column"),
        (array(user, user=integers([1] * 15, npy)), DATA_ERROR, "y_train.npy has 16: they must be as many"),
        (array(user, user=integers([-1] * 16, npy)), DATA_ERROR, "user_train.npy: row 0 has the id -1, and ids are not negative"),
        (array(user, user=integers([1] * 16, npy, "<f4")), FLAGS, "user_train.npy: is <f4 [16]; ids (data.ids[0]) must be integers"),
        (array(user, y=integers([], npy)), FLAGS, "y_train.npy: is <i8 [0]; it must be"),
        (array(weighted, feature=lists, seen_offsets=integers([0] * 16 + [21], npy)), DATA_ERROR,
         "seen_offsets_train.npy: row 16 is 21, but the last offset must be the number of ids in "),
        (array(weighted, feature=lists, seen_offsets=integers([0, 9, 8] + [20] * 14, npy)), DATA_ERROR,
         "seen_offsets_train.npy: row 2 is 8, less than the one before it; offsets must not fall"),
        (array(weighted, feature=mean, weight=integers([0.5] * 19 + [-1], npy, "<f4")), DATA_ERROR,
         "weight_train.npy: row 9 has an id whose weight -1 is negative, but the model takes the mean"),
        (array(weighted, feature=lists, seen_offsets=None), DATA_ERROR, "lists of ids need an array of offsets"),
        (array(weighted, feature=lists, weight=integers([1] * 19, npy, "<f4")), DATA_ERROR,
         "save one float for each id (data.ids[0].weights)"),
    ]
