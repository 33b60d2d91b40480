"""LM-Polygraph's three CoCoA estimators on prompts, as it computes them; called by `peers.py`.

It runs in a virtual environment of LM-Polygraph's own, which is why it imports nothing of ours.
Requests come as lines of JSON, `{"prompts": [...]}`, and each is answered by the milliseconds that
it took and the scores, once a line `{}` has said that the models are loaded.
"""

import json
import sys
import time

import torch
from lm_polygraph.estimators import CocoaMSP, CocoaMTE, CocoaPPL
from lm_polygraph.stat_calculators import (
    EntropyCalculator,
    GreedyCrossEncoderSimilarityMatrixCalculator,
    GreedyProbsCalculator,
    SamplingGenerationCalculator,
)
from lm_polygraph.utils.generation_parameters import GenerationParameters
from lm_polygraph.utils.model import WhiteboxModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(path: str, cross_encoder: str, max_new_tokens: int, num_samples: int) -> None:
    """Answer requests until there are no more."""
    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    network = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    parameters = GenerationParameters(do_sample=False, max_new_tokens=max_new_tokens)
    model = WhiteboxModel(network, tokenizer, path, "CausalLM", parameters)
    calculators = [
        GreedyProbsCalculator(output_attentions=False, output_hidden_states=False),
        EntropyCalculator(),
        SamplingGenerationCalculator(samples_n=num_samples),
        GreedyCrossEncoderSimilarityMatrixCalculator(cross_encoder_name=cross_encoder),
    ]
    estimators = [CocoaMSP(), CocoaPPL(), CocoaMTE()]
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        prompts = json.loads(line)["prompts"]
        began_at = time.perf_counter()
        found = {"input_texts": prompts}
        for calculator in calculators:
            found |= calculator(found, prompts, model, max_new_tokens)
        scores = [list(map(float, estimator(found))) for estimator in estimators]
        elapsed_ms = 1000 * (time.perf_counter() - began_at)
        print(json.dumps({"ms": elapsed_ms, "scores": scores}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[5]))
    with torch.no_grad():
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
