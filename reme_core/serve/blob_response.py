"""Bytes of images and files as answers that no browser takes for a page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from reme_core.schema import Blob, raster_type
from reme_core.serve.access import Right
from reme_core.serve.service import Service, principal_of

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def blob_response(blob: Blob) -> Response:
    """Answer with the bytes: PNG, JPEG, GIF and WebP may be shown, all else (SVG, HTML, PDF) is a file to be saved.

    What it is, its first bytes say, not its sender.
    """
    raster = raster_type(blob.data)
    how = "attachment" if raster is None else "inline"
    name = f"{blob.ref[7:23]}.{(raster or 'application/bin').rpartition('/')[2]}"
    return Response(
        blob.data,
        media_type=raster or "application/octet-stream",
        headers={**_HEADERS, "Content-Disposition": f'{how}; filename="{name}"'},
    )


async def send_blob(service: Service, request: Request) -> Response:
    """Answer with the bytes that a reference of the caller's names."""
    principal = principal_of(request)
    principal.require(Right.READ)
    memory = await service.memory_of(principal)
    return blob_response(await memory.read_blob(request.path_params["ref"], user_id=principal.scope.user_id))
