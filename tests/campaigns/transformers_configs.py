"""Writes tests/transformers_configs.json, where transformers is installed; it needs no argument."""

import json
from pathlib import Path

import transformers

CLASSES = """
MixtralConfig Qwen3MoeConfig Gemma3TextConfig Gemma3Config Phi3Config Llama4Config Llama4TextConfig MistralConfig
Ministral3Config Mistral3Config Mistral4Config NemotronHConfig Glm4MoeConfig HunYuanMoEV1Config HunYuanDenseV1Config
KimiLinearConfig
"""
FILE = Path(__file__).resolve().parents[1] / "transformers_configs.json"

if __name__ == "__main__":
    saved = {name: json.loads(getattr(transformers, name)().to_json_string()) for name in CLASSES.split()}
    content = {"package": "transformers", "version": transformers.__version__, "configs": saved}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
