# What CONTRIBUTING.md asks for, as short commands: `just quick`. https://just.systems

# The tests of tests/data/quick.yaml, under a minute on two cores.
quick:
    python -m pytest -m quick

# What needs no test: style, types, import layers, words.
lint:
    ruff check .
    ruff format --check .
    mypy
    lint-imports
    python -m pytest -q -n 0 tests/test_structure.py tests/test_vocabulary.py

# Rewrites generated/ and the parts of pages that are made from code.
golden: && docs
    python -m pytest -q tests/gallery/test_generated.py --update-golden

# The tests that need a GPU; nothing may be skipped on a machine that has one.
gpu:
    python -m pytest -rs -m 'gpu or not gpu' tests/gpu

# Rewrites the parts of pages that are made from code, and tests what the pages say.
docs:
    python -m pytest -q -n 0 {{ made_pages }} --update-golden
    python -m pytest -q {{ made_pages }} {{ pages }}

# Builds the site into build/site; a warning is an error.
site:
    sphinx-build -W --keep-going -c docs . build/site

made_pages := "tests/gallery/test_readme.py tests/gallery/test_manual.py tests/gallery/test_gallery_page.py tests/families/test_families_page.py"
pages := "tests/docs tests/gallery/test_adding_a_family.py tests/integration/test_build_page.py tests/cli/test_manual.py tests/cli/test_outputs_page.py tests/cli/test_editors_page.py tests/bench"
