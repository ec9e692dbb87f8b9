import os
import sys
from pathlib import Path

# Some virtual machines show AMX and do not allow it; oneDNN then dies in the first bf16 product.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)
