"""The module `pyexpat`: there is none, since the native one loses attributes. Says so where a parser is wanted."""

XML_PARAM_ENTITY_PARSING_NEVER = 0
XML_PARAM_ENTITY_PARSING_UNLESS_STANDALONE = 1
XML_PARAM_ENTITY_PARSING_ALWAYS = 2
EXPAT_VERSION = "expat_2.5.0"
version_info = (2, 5, 0)
native_encoding = "UTF-8"
features = []


class ExpatError(Exception):
    """An error of the parser."""


error = ExpatError


class XMLParserType:
    """A parser."""


class _Texts:
    XML_ERROR_FINISHED = "parsing finished"


errors, model = _Texts(), _Texts()


def ErrorString(number, /):
    return None


def ParserCreate(*args, **kwargs):
    raise ModuleNotFoundError("No module named 'pyexpat'", name="pyexpat")
