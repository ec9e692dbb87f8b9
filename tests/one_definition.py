#!/usr/bin/env python3
"""The one-definition check: one namespace per folder, and every type defined once per fully qualified name. Two types
of one name link without a word and then run each other's destructors.

    one_definition.py [ROOT]         prints each violation as file:line, exits with 1 if there is one
    one_definition.py --self-test    shows that each kind of violation is caught
"""
import re
import sys
from collections import defaultdict

import rules

# Besides those of app: the namespace of a folder of the library is laconic::FOLDER. Those of the public API are inline,
# so that users write laconic::Mean.
OUTSIDE = {"python": "laconic::python"}
# Files inside a folder whose names mean something else: a kernel's Source is not a rule's. What launches kernels is a Device.
INSIDE = ((re.compile(r"laconic/device/cuda/(?!cuda_|launch-inl|open)"), "laconic::cuda"),)
# Namespaces of others, in which types may be specialised or declared.
OTHERS = {"std", "fmt", "nlohmann", "CLI", "nanobind", "nanobind::detail"}

SKIPPED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|^HWY_\w+\(\);?$", re.S | re.M)
NAMESPACE = re.compile(r"^(?:inline\s+)?namespace\b\s*(?:\[\[.*?\]\]\s*)?((?:\w|::inline |:)*)$", re.S)
TYPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:enum\s+class|enum\s+struct|class|struct|union|enum)\s+"
                  r"(?:\[\[.*?\]\]\s*|alignas\s*\([^)]*\)\s*)*([\w:]+(?:<[^{]*?>)?)\s*(?:final\s*)?(?::(?!:).*)?$", re.S)
DECLARED = re.compile(r"^(?:template\s*<.*>\s*)?(?:class|struct|union|enum(?:\s+class)?)\s+[\w:]+(?:\s*:\s*[\w:]+)?$", re.S)


def without_text(text):
    """Comments, strings, directives and Highway's macros become blanks; line numbers stay."""
    return SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def statements(text):
    """(what stands before a '{' or ';', that sign, its line, the namespaces around it), at namespace scope only."""
    text = without_text(text)
    scopes, begin, depth = [], 0, 0  # depth: of braces that are no namespace's
    for match in re.finditer(r"[{};]", text):
        head, sign = text[begin:match.start()].strip(), match[0]
        line = text.count("\n", 0, match.start() - len(text[begin:match.start()].lstrip()) if head else match.start()) + 1
        if depth == 0:
            if sign != "}" or head:
                yield head, sign, line, tuple(scopes)
            if sign == "{" and (name := NAMESPACE.match(head)):
                scopes.append(name[1].replace("inline ", ""))
            elif sign == "{":
                depth = 1
            elif sign == "}" and scopes:
                scopes.pop()
        else:
            depth += {"{": 1, "}": -1, ";": 0}[sign]
        if depth == 0 or sign == "{":
            begin = match.end()


def namespace_of(path):
    """The one in which a file defines things, or None where the rule is not switched on."""
    folder = path.rpartition("/")[0]
    if path.startswith("app/"):
        return "::".join(["laconic", *folder.split("/")])
    if path.startswith("laconic/"):
        own = next((name for files, name in INSIDE if files.match(path)), None)
        return own or "::".join(folder.split("/")[:2])
    return OUTSIDE.get(folder)


def types_of(text):
    """(fully qualified name, line) of each type defined at namespace scope that other files could see."""
    for head, sign, line, scopes in statements(text):
        if sign == "{" and "" not in scopes and (found := TYPE.match(head)):
            yield "::".join([*scopes, re.sub(r"\s", "", found[1])]), line


def strangers(text, wanted):
    """(namespace, line) of what stands in another namespace than `wanted`."""
    for head, sign, line, scopes in statements(text):
        at = "::".join(scope for scope in scopes if scope)
        inside = at == wanted or at.startswith(wanted + "::")
        if inside or at in OTHERS or not head or NAMESPACE.match(head) or sign == ";" and DECLARED.match(head):
            continue
        if sign == "{" and not at and re.match(r"^(?:int main|NB_MODULE)\s*\(|^extern\b", head):
            continue
        if not re.match(r"^namespace\s+\w+\s*=|^using\b|^template\b.*<>|^static_assert\b", head, re.S):
            yield at or "the global namespace", line


def violations(root):
    places = defaultdict(list)
    for top in ("laconic", "app", "python"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".h", ".cc"):
                continue
            path, text = file.relative_to(root).as_posix(), file.read_text()
            wanted = namespace_of(path)
            for name, line in types_of(text):
                places[name].append((path, line, wanted))
            for found, line in strangers(text, wanted) if wanted else ():
                yield f"{path}:{line}: stands in {found}; what is in this folder belongs to {wanted}"
                break
    for name, found in sorted(places.items()):
        first, *others = found
        for path, line, wanted in others:
            if path != first[0] and (wanted or first[2]):  # twice in a file: the compiler sees it, or it is #else
                yield f"{path}:{line}: {name} is also defined in {first[0]}:{first[1]}"


ALLOWED = {
    "app/failure.h": "namespace laconic::app {\nstruct Exit {\n  int code;\n};\n}",
    "app/main.cc": "int main(int argc, char** argv) {\n  return 0;\n}",
    "app/plan/arms.h": "// struct Point {};\nnamespace CLI {\nclass App;\n}\nnamespace laconic::app::plan {\nstruct Arm {};\nenum class Kind : int { kOne };\n}",
    "app/report/results.h": "namespace laconic::app::report {\nstruct Arm {\n  struct Point {};\n};\nclass Seen;\nclass Seen;\n"
                            'constexpr const char* kText = "struct Arm {";\n}',
    "app/report/a.cc": "namespace laconic::app::report {\nnamespace {\nstruct Options {};\n}\nvoid f() {\n  struct Local {};\n}\n}",
    "app/report/b.cc": "namespace laconic::app::report {\nnamespace {\nstruct Options {};\n}\nvoid g() {\n  struct Local {};\n}\n}",
    "app/report/c.cc": "namespace laconic {\nnamespace fs = std::filesystem;\n}\ntemplate <>\nstruct std::hash<int> {};\n",
    "laconic/core/a.h": "namespace laconic::inline core {\nstruct Place {};\n}",
    "laconic/optim/a.h": "namespace laconic::inline optim {\nstruct Place {};\n}",
    "laconic/kernels/a.cc": "namespace laconic::kernels::HWY_NAMESPACE {\nstruct Lane final : Base<int> {};\n}",
}
REFUSED = {  # each is wrong in its second line
    "app/training/a.h": "namespace laconic::app {\nstruct Twin {};\n}",
    "app/training/b.cc": "#include <string>\nint global = 0;",
    "app/plan/twin.h": "namespace laconic::app::plan {\nstruct Arm {};\n}",
    "app/report/twin.h": "namespace laconic::app::report { namespace {}\nclass Seen final : public Arm {};\n}",
    "app/report/twins.h": "namespace laconic::app { namespace report {\nclass Seen {};\n}\n}",
    "app/other.h": "namespace laconic::app {\nenum class Exit : int { kOne };\n}",
    "laconic/kernels/b.h": "namespace laconic {\nvoid sign();\n}",
    "laconic/transport/b.h": "namespace laconic {\nstruct Kind {};\n}",
    "laconic/kernels/c.cc": "namespace laconic::kernels::HWY_NAMESPACE {\ntemplate <typename T> struct Lane {};\n}",
}


def self_test():
    right, wrong = rules.found_in(violations, ALLOWED, REFUSED)
    rules.expect(right, [])
    wanted = {f"{path}:2:" for path in REFUSED} - {"app/report/twin.h:2:"}  # of two twins the later by name is reported
    rules.expect(wrong, wanted)
    print(f"one_definition: all {len(wanted)} kinds of violation are caught")


if __name__ == "__main__":
    sys.exit(rules.run(violations, self_test, "one_definition: one namespace per folder, every type defined once"))
