"""Run files with tables, checkpoints of other tables, and examples of clicks that cannot be predicted."""
import subprocess

FLAGS, DATA_ERROR, CONFIG = 64, 65, 78

TABLE = 'table { name: "user" dim: 4 buckets: 16 }\ntable { name: "item" dim: 4 buckets: 16 }\n'
FEATURE = ('feature { name: "who" column: "c1" table: "user" }\n'
           'feature { name: "what" column: "c2" table: "item" pooling: mean }\n')


def run_file(path, table=TABLE, feature=FEATURE, epochs=1, rest=""):
    """A run of clicks that trains, but for what is given."""
    path.write_text(f'''{table}
model {{
  {feature}
  layer {{ input: "input" input: "who" input: "what" concat {{}} }}
  layer {{ dense {{ units: 1 }} }}
  loss: "sigmoid_cross_entropy"
}}
data {{ format: clicks_synthetic clicks {{ scale: 0.001 }} train_examples: 64 test_examples: 32 }}
optimizer {{ learning_rate: 0.1 adagrad {{}} {rest} }}
batch_size: 16
num_epochs: {epochs}
deployment {{ num_ps_tasks: 0 num_replicas: 1 }}
''')
    return path


def table_cases(scratch, shoal):
    scratch.mkdir()
    number = 0

    def train(out=None, **other):
        """The command of a run that differs from a good one in this."""
        nonlocal number
        number += 1
        place = scratch / str(number)
        place.mkdir()
        return ["train", f"--run={run_file(place / 'run.textproto', **other)}", f"--out={out or place / 'out'}"]

    out = scratch / "good"
    done = subprocess.run([shoal, *train(out)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    def user(settings):
        return f'table {{ name: "user" {settings} }}\ntable {{ name: "item" dim: 4 buckets: 16 }}\n'

    def tables(settings):
        return train(table=user(settings))

    def again(settings):
        """The good run continues with another table."""
        return train(out, table=user(settings), epochs=2)

    numbers = "\t".join(["0.5"] * 13)

    def predict(ids, *flags):
        nonlocal number
        number += 1
        path = scratch / f"{number}.tsv"
        path.write_text(numbers + "\t" + "\t".join(ids) + "\n")
        return ["predict", f"--out={out}", f"--input={path}", *flags]

    ids = ["1"] * 26
    (scratch / "clicks.npy").write_bytes(b"\x93NUMPY\x01")
    return [
        # The run file.
        (train(feature=FEATURE.replace('table: "user"', 'table: "usr"')), FLAGS,
         'model.feature[0].table: "usr" is not a table of the run'),
        (train(feature=FEATURE.replace('table: "user"', "")), FLAGS, "model.feature[0].table: is empty; name the table"),
        (train(feature=FEATURE.replace('column: "c1"', "")), FLAGS, "model.feature[0].column: is empty; name the column"),
        (train(feature=FEATURE + 'feature { name: "who" column: "c3" table: "item" }\n'), FLAGS, '"who" is the name of another feature too'),
        (train(feature=FEATURE.replace('column: "c1"', 'column: "person"')), FLAGS,
         'model.feature[0].column: "person" is not a column of the data; those with ids are c1, c2'),
        (train(table=TABLE + 'table { name: "shop" dim: 4 }\n'), FLAGS, "shop"),
        (train(table=TABLE + 'table { name: "user" dim: 8 }\n'), FLAGS, "with one dim: they are 4 and 8"),
        (train(table=TABLE.replace('"user"', '"us/er"')), FLAGS, "table[0].name: "),
        (tables("dim: 0"), FLAGS, "table[0].dim: must be 1 to 4096, is 0"),
        (tables("dim: 5000"), FLAGS, "table[0].dim: must be 1 to 4096, is 5000"),
        (tables("dim: 4 buckets: 70000"), FLAGS, "table[0].buckets: must be at most 65536, is 70000"),
        (tables("dim: 4 expiry { idle_updates: -1 }"), FLAGS, "idle_updates"),
        (tables("dim: 4 admission { min_count: 1.5 }"), FLAGS, "min_count"),
        (tables("dim: 4 optimizer { adagrad { learning_rate: -1 } }"), FLAGS,
         "table[0].optimizer: learning_rate must be a finite number >= 0, is -1"),
        (tables("dim: 4 optimizer { l2: -1 }"), FLAGS, "table[0].optimizer: l2 must be a finite number >= 0, is -1"),
        (tables("dim: 4 initializer { uniform { low: 1 high: 0 } }"), FLAGS, "table[0].initializer.uniform.low: must be at most"),
        (train(rest="moving_average_decay: 0.9"), FLAGS, "moving_average_decay"),
        # The run asks of a table what only dense variables can do.
        (train(rest='group { variables: "us.*" frozen: true }'), FLAGS,
         'optimizer.group[0].variables: "us.*" matches the table "user", which cannot be frozen; to train it put group { '),
        (train(rest='group { variables: ".*" weight_decay: 0.1 }'), FLAGS,
         'optimizer.group[0].variables: ".*" matches the table "user", which has no weight decay; put group { variables: "user" }'),
        ([*train(), "--trainable=user"], FLAGS, 'trainable: leaves out the table "item", which cannot be frozen; add "item"'),
        ([*train(), "--trainable=user,itme"], FLAGS, 'trainable: "itme" matches the whole name of none of the variables'),
        # Another run in the directory of this one.
        (again("dim: 4 buckets: 32"), CONFIG, "table user: buckets is 16 in the checkpoint and 32 in the model; train that"),
        (again("dim: 4 buckets: 16 optimizer { sgd {} }"), CONFIG, "table user: optimizer is adagrad { "),
        (again("dim: 4 buckets: 16 initializer { constant { value: 0 } }"), CONFIG,
         "table user: initializer is uniform(-0.05, 0.05) in the checkpoint and constant(0"),
        (again("dim: 4 buckets: 16 admission { min_count: 3 }"), CONFIG, "table user: admission.min_count is 0 in the checkpoint"),
        (again("dim: 4 buckets: 16 expiry { idle_updates: 5 }"), CONFIG,
         "table user: expiry.idle_updates is 0 in the checkpoint and 5 in the model; train that model, or give"),
        # Commands that read a run.
        (predict(ids[1:]), DATA_ERROR, 'column of ids "38" is not there; the columns are 0 to 37'),
        (predict(ids + ["1"]), CONFIG, "--input: "),
        (predict(["anna", *ids[1:]]), DATA_ERROR, 'column 13 is "anna", which is not a whole number of 64 bits'),
        (predict(["-1", *ids[1:]]), DATA_ERROR, 'column 13 is "-1", and ids are not negative; leave a missing id out'),
        (predict(["1.0", *ids[1:]]), DATA_ERROR, 'column 13 is "1.0", which is not a whole number of 64 bits'),
        (predict(ids, "--use_averages"), FLAGS, "--use_averages: has no meaning for a run with tables"),
        (["predict", f"--out={out}", f"--input={scratch}/clicks.npy"], DATA_ERROR, "clicks.npy"),
        (["eval", f"--out={out}", "--use_averages"], FLAGS, "--use_averages: has no meaning for a run with tables"),
        (["lookup", f"--out={out}", "--table=shop", "1"], CONFIG, "has no table shop; it has user, item"),
        (["lookup", f"--out={out}", "--table=user", "anna"], FLAGS, "anna: is not a key"),
        (["lookup", f"--out={out}", "--table=user", "--words", ""], FLAGS, "KEY: is empty; an empty text is never an id"),
        (["lookup", f"--out={out}", "1"], FLAGS, "--table: is missing; name a table of the run"),
    ]
