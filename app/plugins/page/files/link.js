// Where operation has a port of its own, the API's schema is there, at the host of the page.

const link = document.getElementById("api");
const port = link.dataset.port;
if (port !== undefined) {
  link.href = `http://${location.hostname}:${port}/docs`;
  link.textContent = `API, at port ${port}`;
}
