"""CUDA text to C++ text: shared memory, and which kernels a file holds."""

import re

# Blanked before we look for declarations: a comment may well speak of __shared__.
_UNCODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_ALIGN = r"(?:(?:__align__|alignas)\s*\([^()]*\)\s*)*"
_SHARED = re.compile(rf"\b(extern\s+|static\s+)?({_ALIGN})__shared__\b")
_DECLARATOR = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
_DYNAMIC = re.compile(
    rf"\s*{_ALIGN}(?P<type>.*?)\s*\b(?P<name>\w+)\s*\[\s*\]\s*", re.DOTALL
)


def rewrite_shared(code: str) -> str:
    """Turn shared memory into C++, line for line.

    Dynamic shared memory becomes a pointer that the runtime gives; a static object
    becomes a C++ static (one per template instance, as in CUDA) that the runtime
    poisons when a block first declares it.

    >>> rewrite_shared("extern __shared__ float4 tile[];")
    'float4* tile = (float4*)emu_dynamic_shared();'
    >>> rewrite_shared("__shared__ int a[N], b;")
    'static int a[N], b; EMU_SHARED(a); EMU_SHARED(b);'
    """
    blanked = _UNCODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)
    pieces, done = [], 0
    for match in _SHARED.finditer(blanked):
        end = _end_of_statement(blanked, match.end())
        storage, alignment = (match[1] or "").strip(), match[2]
        body = code[match.end() : end]
        rewrite = _dynamic if storage == "extern" else _static
        pieces += [code[done : match.start()], rewrite(alignment, body)]
        done = end + 1
    return "".join(pieces) + code[done:]


def _end_of_statement(blanked: str, start: int) -> int:
    depth = 0
    for position in range(start, len(blanked)):
        depth += (blanked[position] in "{(") - (blanked[position] in "})")
        if blanked[position] == ";" and depth == 0:
            return position
    raise ValueError("a __shared__ declaration has no end.")


def _dynamic(_alignment: str, body: str) -> str:
    declared = _DYNAMIC.fullmatch(body)
    if declared is None:
        raise ValueError(f"cannot read 'extern __shared__{body};'.")
    kind = declared["type"]
    return f"{kind}* {declared['name']} = ({kind}*)emu_dynamic_shared();"


def _static(alignment: str, body: str) -> str:
    names = [_DECLARATOR.search(part.strip())[1] for part in split_commas(body)]
    body = re.sub(r"\balignas\b", "__align__", alignment + body.lstrip())
    return f"static {body};" + "".join(f" EMU_SHARED({name});" for name in names)


def split_commas(text: str) -> list[str]:
    """Split at the commas outside all brackets.

    >>> split_commas("int a[f(1, 2)], b")
    ['int a[f(1, 2)]', ' b']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def find_kernels(preprocessed: str) -> dict[str, str]:
    """Return the extern "C" kernels of a text without macros, with their thread limit.

    >>> find_kernels('extern "C" __global__ void __launch_bounds__(8 * N, 1) k() {}')
    {'k': '8 * N'}
    """
    kernels = {}
    for match in re.finditer(r'\bextern\s+"C"\s+([^;{}]*)[;{]', preprocessed):
        head = match[1]
        if not re.search(r"\b__global__\b", head):
            continue
        limit = "1024"
        bounds = re.search(r"\b__launch_bounds__\s*\(", head)
        if bounds:
            end = _closing(head, bounds.end())
            limit = split_commas(head[bounds.end() : end])[0].strip()
            head = head[: bounds.start()] + head[end + 1 :]
        kernels[re.search(r"(\w+)\s*\(", head)[1]] = limit
    return kernels


def _closing(text: str, start: int) -> int:
    depth = 1
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position
    raise ValueError("__launch_bounds__ has no closing bracket.")
