"""llama-server as its makers start it, from the package `xllamacpp`: `serve.py GGUF PORT CONTEXT`.

Runs in the environment of the server. Four slots are what llama-server has by itself.
"""

import sys
import threading

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port, params.n_ctx = map(int, sys.argv[2:])
params.n_parallel = 4
params.use_jinja = True
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
threading.Event().wait()
