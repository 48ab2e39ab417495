"""Known programs of task 7.5.3, Branches on a shared prefix."""

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("7.5.3")


@known.probe()
def three_axes(program):
    x = normals(11)(2, 3, 4)
    return program(x), x


@known.sized("x 1,024 x 4,096, float32")
def sized(program):
    x = normals(1)(1024, 4096)
    return lambda: program(x)


known.change(
    "unchanged",
    ("return x + x", "return x"),
    fact="the array comes back as it was",
    question="What should 3 become?",
)


@known.accepted("product")
def product(x):
    return 2 * x
