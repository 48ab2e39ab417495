"""What uvicorn says of bytes that are no HTTP: an error in OpenAI's form, too."""

import h11
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from .refusals import wrong


class Protocol(H11Protocol):
    """A connection. It is h11's, which bounds the size of headers, also where uvicorn would find a faster one."""

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, and hang up."""
        # An answer may have begun: its sender was refused before all of the body had come.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = JSONResponse(wrong("This is not HTTP, or not as it should be.").body())
            headers = [*answer.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=400, reason=b"Bad Request", headers=headers),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
