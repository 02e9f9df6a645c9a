//! Modules that programs know and that this engine doesn't have.
//!
//! Answers to: `failure`, which tells a missing module of the wide world (another tier may have it) from a misspelled
//! one. Must not: list anything that the engine can import.

/// The module's public name, where it is one that exists elsewhere.
pub fn known(name: &str) -> Option<String> {
    let root = name.split('.').next().unwrap_or_default();
    let public = match root {
        "_posixsubprocess" => "subprocess",
        "_multiprocessing" | "_posixshmem" => "multiprocessing",
        "_socket" => "socket",
        "_ssl" => "ssl",
        "_sqlite3" => "sqlite3",
        "_ctypes" => "ctypes",
        "_tkinter" => "tkinter",
        "_curses" => "curses",
        "_dbm" | "_gdbm" => "dbm",
        "_zstd" => "compression.zstd",
        "_scproxy" => "urllib.request",
        other => other,
    };
    let found = STANDARD.contains(&public) || PACKAGES.contains(&public);
    found.then(|| if public == root { name.chars().take(120).collect() } else { public.to_owned() })
}

/// Of the standard library.
const STANDARD: &[&str] = &[
    "cProfile", "compression.zstd", "ctypes", "curses", "dbm", "faulthandler", "fcntl", "grp", "mmap",
    "multiprocessing", "nis", "profile", "pstats", "pwd", "readline", "resource", "select", "selectors", "socket",
    "socketserver", "sqlite3", "ssl", "subprocess", "syslog", "termios", "tkinter", "tracemalloc", "tty", "turtle",
    "urllib.request", "winreg", "xxlimited", "audioop", "crypt", "imp", "distutils", "asyncore", "asynchat", "cgi",
    "telnetlib", "ossaudiodev", "spwd", "msvcrt", "winsound", "_testcapi", "_lsprof", "_interpreters",
];

/// Of the package index: what programs written by models ask for most.
const PACKAGES: &[&str] = &[
    "IPython", "PIL", "aiofiles", "aiohttp", "altair", "anthropic", "attr", "attrs", "bokeh", "boto3", "botocore",
    "bs4", "cachetools", "celery", "certifi", "chardet", "click", "cryptography", "cv2", "cvxpy", "cython", "dask",
    "dateutil", "django", "docx", "dotenv", "duckdb", "fastapi", "feedparser", "flask", "folium", "fsspec", "geopandas",
    "google", "gradio", "graphviz", "h5py", "httpx", "huggingface_hub", "jax", "jinja2", "joblib", "jsonschema", "jwt",
    "keras", "langchain", "lightgbm", "llvmlite", "loguru", "lxml", "markdown", "matplotlib", "mpmath", "msgpack",
    "networkx", "nltk", "numba", "numexpr", "numpy", "openai", "openpyxl", "orjson", "packaging", "pandas", "paramiko",
    "patsy", "pip", "plotly", "polars", "psutil", "psycopg2", "pyarrow", "pydantic", "pygments", "pymongo", "pymysql",
    "pypdf", "PyPDF2", "pyspark", "pytest", "pytz", "redis", "regex", "requests", "rich", "scipy", "seaborn", "selenium",
    "setuptools", "shapely", "simplejson", "six", "sklearn", "skimage", "spacy", "sqlalchemy", "starlette", "statsmodels",
    "streamlit", "sympy", "tabulate", "tensorflow", "tiktoken", "toml", "torch", "torchvision", "tornado", "tqdm",
    "transformers", "typer", "typing_extensions", "tzdata", "ujson", "urllib3", "uvicorn", "websocket", "websockets",
    "werkzeug", "wheel", "wordcloud", "xgboost", "xlrd", "xlsxwriter", "yaml", "yfinance", "zmq",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_name_is_told() {
        let check = |name: &str, want: Option<&str>| assert_eq!(known(name).as_deref(), want, "{name}");
        check("numpy", Some("numpy"));
        check("numpy.linalg", Some("numpy.linalg"));
        check("_socket", Some("socket"));
        check("_posixsubprocess", Some("subprocess"));
        check("helpres", None);
        check("", None);
    }
}
