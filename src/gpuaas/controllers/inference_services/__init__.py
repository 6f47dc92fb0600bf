"""InferenceService → a Deployment of the predictor's pods and a Service before them."""

from gpuaas.controllers.inference_services.controller import InferenceServiceController
from gpuaas.controllers.inference_services.wanted import INFERENCE_SERVICES

__all__ = ["INFERENCE_SERVICES", "InferenceServiceController"]
