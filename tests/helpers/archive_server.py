"""A small archive on this machine: a server in a thread, and zip files as the archive has them."""

import io
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HEAD = "@problemName Small\n@univariate false\n@equalLength false\n@classLabel true Up Down\n@data\n"
TRAIN = HEAD + "1,2,3:4,5,6:Up\n7,?:9,0.5:Down\n"
TEST = HEAD + "1.5:2.5:Down\n"


def zipped(train: str | None = TRAIN, test: str | None = TEST, folder: str = "", name: str = "Small", **more) -> bytes:
    """A zip file with the two text files, and others."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in (("TRAIN", train), ("TEST", test)):
            if text is not None:
                archive.writestr(f"{folder}{name}_{part}.ts", text)
        for file, content in more.items():
            archive.writestr(file, content)
    return buffer.getvalue()


class Archive:
    """Serves `files` by path; counts requests; can cut answers short, stall, or send no length."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.missing_bytes = 0
        self.seconds = 0.0
        self.length = True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                content = outer.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                time.sleep(outer.seconds)
                self.send_response(200)
                if outer.length:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) - outer.missing_bytes])

            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
