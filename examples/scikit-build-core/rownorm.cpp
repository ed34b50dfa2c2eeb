// The module `_rownorm`: norms(x, rows) takes and gives float32 values as bytes.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cuda_runtime.h>

#include "row_norm.h"

static PyObject* norms(PyObject*, PyObject* arguments)
{
    Py_buffer x;
    int rows;
    if (!PyArg_ParseTuple(arguments, "y*i", &x, &rows))
        return nullptr;
    const int columns = rows > 0 ? static_cast<int>(x.len / sizeof(float) / rows) : 0;
    PyObject* const result = PyBytes_FromStringAndSize(nullptr, rows * sizeof(float));

    float *X = nullptr, *Y = nullptr;
    cudaError_t status = cudaMalloc(&X, x.len);
    if (status == cudaSuccess)
        status = cudaMalloc(&Y, rows * sizeof(float));
    if (status == cudaSuccess)
        status = cudaMemcpy(X, x.buf, x.len, cudaMemcpyHostToDevice);
    if (status == cudaSuccess)
        status = row_norm_launch(X, Y, rows, columns, nullptr);
    if (status == cudaSuccess)
        status = cudaMemcpy(PyBytes_AS_STRING(result), Y, rows * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(X);
    cudaFree(Y);
    PyBuffer_Release(&x);
    if (status == cudaSuccess)
        return result;
    Py_DECREF(result);
    PyErr_SetString(PyExc_RuntimeError, cudaGetErrorString(status));
    return nullptr;
}

static PyMethodDef methods[] = {{"norms", norms, METH_VARARGS, "The Euclidean norm of each row."}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_rownorm", nullptr, -1, methods};

PyMODINIT_FUNC PyInit__rownorm() { return PyModule_Create(&module); }
